"""Speed of Sokoban compared with GEM's, the fastest text Sokoban among the packages on PyPI.

    python -m venv /tmp/peer && /tmp/peer/bin/pip install gem-llm
    PYTHONPATH=src python tests/benchmarks/bench_sokoban.py --peer /tmp/peer/bin/python --boxoban ../shared/data/boxoban

Both make the same random moves on levels of the same size (6x6, two boxes), alternating in processes of their own; the
results are the best of three rounds of CPU time. A solved level is reset.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import creditflow
from creditflow.envs.sokoban import GeneratorOptions, LevelOracle, SokobanEnv, generate_level, read_levels, rules
from creditflow.envs.sokoban import env as env_module
from creditflow.train.commands.arguments.parser import CommandParser

ROUNDS = 3
STEPS = 100_000
MOVES = ("up", "down", "left", "right")
KINDS = ((6, 1), (6, 2), (8, 1), (8, 2), (8, 3), (10, 2))

PEER = r"""
import json, random, sys, time
import numpy as np
from gem.envs.game_env.sokoban import SokobanEnv

steps, kinds = int(sys.argv[1]), json.loads(sys.argv[2])
env = SokobanEnv(dim_room=(6, 6), max_turns=10**9, num_boxes=2)
env.reset(seed=1)
start = env.room_fixed, env.room_state, env.player_position
moves = ["\\boxed{%s}" % ("up", "down", "left", "right")[i] for i in np.random.default_rng(0).integers(0, 4, 1000)]
env.room_state, env.player_position = start[1].copy(), start[2].copy()
began = time.process_time()
for _ in range(steps // 1000):
    for move in moves:
        if env.step(move)[2]:
            env.room_state, env.player_position = start[1].copy(), start[2].copy()
result = {"steps": steps / (time.process_time() - began)}
for side, boxes in kinds:
    env = SokobanEnv(dim_room=(side, side), max_turns=50, num_boxes=boxes)
    began, made = time.process_time(), 0
    while made < 3 or (time.process_time() - began < 1.0 and made < 500):
        made += 1
        env.reset(seed=made)
    result[f"levels {side}x{side} {boxes}"] = made / (time.process_time() - began)
print(json.dumps(result))
"""


def steps_per_second(step: Callable[[Any], Any], reset: Callable[[], Any], actions: list[Any], count: int) -> float:
    """Steps per CPU second with random actions."""
    reset()
    began = time.process_time()
    for _ in range(count // len(actions)):
        for action in actions:
            if step(action)[2]:
                reset()
    return count / (time.process_time() - began)


def measure_steps() -> dict[str, float]:
    """Steps per second of this package's environment in several modes."""
    numbers = [int(i) for i in np.random.default_rng(0).integers(0, 4, 1000)]
    level = generate_level(np.random.default_rng(1), GeneratorOptions(6, 6, 2, 8, 15)).xsb
    results = {}
    for name, count, kwargs in (
        ("text", STEPS, {}),
        ("grid", STEPS, {"obs_mode": "grid", "action_mode": "discrete"}),
        ("rgb, tile 28", STEPS // 5, {"obs_mode": "rgb", "action_mode": "discrete"}),
    ):
        env = creditflow.make("sokoban", level=level, max_steps=10**9, **kwargs)
        actions: list[Any] = numbers if "action_mode" in kwargs else [MOVES[i] for i in numbers]
        bare = env.unwrapped
        results[f"{name}, unwrapped"] = steps_per_second(bare.step, bare.reset, actions, count)
        results[f"{name}, gym.make"] = steps_per_second(env.step, env.reset, actions, count)
    return results


def measure_without_caches() -> float:
    """Steps per second without the caches of texts and keys, as if no board ever recurred."""
    level = generate_level(np.random.default_rng(1), GeneratorOptions(6, 6, 2, 8, 15)).xsb
    env = SokobanEnv(level=level, max_steps=10**9)
    cached, draw = rules.state_key, env.text_view._grid
    vars(env_module)["state_key"] = cached.__wrapped__
    env._view = lambda board, _: draw(board)
    actions = [MOVES[i] for i in np.random.default_rng(0).integers(0, 4, 1000)]
    try:
        return steps_per_second(env.step, env.reset, actions, STEPS)
    finally:
        vars(env_module)["state_key"] = cached


def measure_generator() -> dict[str, float]:
    """Generated levels per second, with solutions of 5 to 40 moves."""
    results = {}
    for side, boxes in KINDS:
        rng, options = np.random.default_rng(0), GeneratorOptions(side, side, boxes, 5, 40)
        began, made = time.process_time(), 0
        while time.process_time() - began < 1.0:
            generate_level(rng, options)
            made += 1
        results[f"levels {side}x{side} {boxes}"] = made / (time.process_time() - began)
    return results


def print_oracle(folder: Path) -> None:
    """Milliseconds for the complete exact table of a level."""
    for path in sorted(folder.rglob("*.txt")):
        seconds = []
        for level in read_levels(path)[:100]:
            began = time.process_time()
            LevelOracle(level)
            seconds.append(time.process_time() - began)
        milliseconds = sorted(1000 * value for value in seconds)
        print(
            f"oracle, {path.relative_to(folder)}: {len(seconds)} levels, median {statistics.median(milliseconds):.1f} ms, "
            f"95 % {milliseconds[int(0.95 * len(milliseconds))]:.1f} ms, worst {milliseconds[-1]:.1f} ms"
        )


def main() -> None:
    """Measure, and print one line per result."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--peer", help="Python interpreter with gem-llm installed")
    parser.add_argument("--boxoban", type=Path, help="folder of Boxoban level files")
    options = parser.parse_args()

    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, value in {**measure_steps(), "text, unwrapped, caches off": measure_without_caches()}.items():
            ours[name] = max(value, ours.get(name, 0.0))
        if options.peer:
            command = [options.peer, "-c", PEER, str(STEPS // 4), json.dumps(KINDS)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            for name, value in json.loads(output.splitlines()[-1]).items():
                theirs[name] = max(value, theirs.get(name, 0.0))
    for name, value in ours.items():
        ratio = f"   {value / theirs['steps']:.1f} x GEM" if theirs and name.startswith("text") else ""
        print(f"steps/s, {name}: {value:,.0f}{ratio}")
    if theirs:
        print(f"steps/s, GEM text: {theirs['steps']:,.0f}")
    for name, value in measure_generator().items():
        ratio = f"   GEM {theirs[name]:,.1f}   {value / theirs[name]:.1f} x" if theirs else ""
        print(f"{name} boxes: {value:,.0f}/s{ratio}")
    if options.boxoban:
        print_oracle(options.boxoban)


if __name__ == "__main__":
    main()
