"""Speed of Sokoban beside its peers: steps, pictures, levels, the oracle.

    python tests/benchmarks/bench_sokoban.py [--toy] [--boxoban ../shared/data/boxoban] [--rounds 3]

The peer gym-sokoban is what ``constraints/bench.txt`` installs beside this package, and gem-llm is where the tier
gem has its environment. A peer that is missing is left out, and the output says so. All numbers are per CPU second, of all
threads, best of three rounds in which ours and the peers' programs take turns. Single environments make the same random moves on
a level of 6 by 6 cells; a solved level is reset.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.peer.sokoban import PEERS, run_peer
from benchmarks.ratios import leave_out, parser_of, print_ratio, print_speed

import creditflow
from creditflow.envs.sokoban import (
    GeneratorOptions,
    GymSokobanOptions,
    LevelOracle,
    SokobanEnv,
    generate_level,
    read_levels,
    rules,
)
from creditflow.envs.sokoban import env as env_module

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Amount:
    """How much is measured: rounds, steps of a loop, least seconds of a measurement, kinds of levels (side, boxes)."""

    rounds: int
    steps: int
    least: float
    kinds: tuple[tuple[int, int], ...]


FULL = Amount(3, 100_000, 0.5, ((6, 1), (6, 2), (8, 1), (8, 2), (8, 3), (10, 2)))
TOY = Amount(1, 5_000, 0.01, ((6, 1),))
MOVES = ("up", "down", "left", "right")


def steps_per_second(step: Callable[[Any], Any], reset: Callable[[], Any], actions: list[Any], count: int) -> float:
    """Steps per CPU second with random actions."""
    reset()
    began = time.process_time()
    for _ in range(count // len(actions)):
        for action in actions:
            if step(action)[2]:
                reset()
    return count / (time.process_time() - began)


def measure_steps(steps: int) -> dict[str, float]:
    """Steps per second of this package's environment in several modes."""
    numbers = [int(i) for i in np.random.default_rng(0).integers(0, 4, 1000)]
    level = generate_level(np.random.default_rng(1), GeneratorOptions(6, 6, 2, 8, 15)).xsb
    results = {}
    for name, count, kwargs in (
        ("text", steps, {}),
        ("grid", steps, {"obs_mode": "grid", "action_mode": "discrete"}),
        ("rgb, tile 28", steps // 5, {"obs_mode": "rgb", "action_mode": "discrete"}),
    ):
        env = creditflow.make("sokoban", level=level, max_steps=10**9, **kwargs)
        actions: list[Any] = numbers if "action_mode" in kwargs else [MOVES[i] for i in numbers]
        bare = env.unwrapped
        results[f"{name}, unwrapped"] = steps_per_second(bare.step, bare.reset, actions, count)
        results[f"{name}, gym.make"] = steps_per_second(env.step, env.reset, actions, count)
    return results


def measure_without_caches(steps: int) -> float:
    """Steps per second without the caches of texts and keys, as if no board ever recurred."""
    level = generate_level(np.random.default_rng(1), GeneratorOptions(6, 6, 2, 8, 15)).xsb
    env = SokobanEnv(level=level, max_steps=10**9)
    cached, draw = rules.state_key, env.text_view._grid
    vars(env_module)["state_key"] = cached.__wrapped__
    env._view = lambda board, _: draw(board)
    actions = [MOVES[i] for i in np.random.default_rng(0).integers(0, 4, 1000)]
    try:
        return steps_per_second(env.step, env.reset, actions, steps)
    finally:
        vars(env_module)["state_key"] = cached


def measure_generator(work: Amount) -> dict[str, float]:
    """Generated levels per second: exact ones, with solutions of 5 to 40 moves, and those of gym-sokoban's distribution."""
    results = {}
    for side, boxes in work.kinds:
        exact, same = GeneratorOptions(side, side, boxes, 5, 40), GymSokobanOptions(side, side, boxes)
        for name, options in (("exact", exact), ("gym_sokoban", same)):
            rng = np.random.default_rng(0)
            began, made = time.process_time(), 0
            while time.process_time() - began < work.least:
                options.level(rng)
                made += 1
            results[f"{name} levels {side}x{side} {boxes}"] = made / (time.process_time() - began)
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


def best(into: dict[str, Any], found: dict[str, Any]) -> None:
    """Keep the larger of two numbers of one name."""
    for name, value in found.items():
        into[name] = max(value, into[name]) if isinstance(value, float) and name in into else value


def peers_here() -> dict[str, str]:
    """The interpreters of the peers that can be imported."""
    interpreters = {"gem": str(ROOT / ".venv-gem" / "bin" / "python"), "gym-sokoban": sys.executable}
    modules = {"gem": "gem", "gym-sokoban": "gym_sokoban"}
    found = {}
    for name, interpreter in interpreters.items():
        command = [interpreter, "-c", f"import {modules[name]}"]
        if Path(interpreter).exists() and not subprocess.run(command, capture_output=True, check=False).returncode:
            found[name] = interpreter
        else:
            tier = "gem gem-llm" if name == "gem" else "bench dev"
            leave_out(name, f"not installed; .ci/venv {tier} installs it")
    return found


def measure(work: Amount) -> dict[str, dict[str, Any]]:
    """Measure ours and every peer that is installed, in turns."""
    results: dict[str, dict[str, Any]] = {name: {} for name in ("single", "levels", *PEERS)}
    kinds = json.dumps(work.kinds)
    arguments = {"gem": [str(work.steps // 4), kinds], "gym-sokoban": [str(work.steps // 4), kinds]}
    peers = peers_here()
    for _ in range(work.rounds):
        best(
            results["single"],
            {**measure_steps(work.steps), "text, unwrapped, caches off": measure_without_caches(work.steps)},
        )
        best(results["levels"], measure_generator(work))
        for name, interpreter in peers.items():
            best(results[name], run_peer(name, interpreter, arguments[name]))
    return results


def ratios(results: dict[str, dict[str, Any]], work: Amount) -> dict[str, float]:
    """Our speed over that of the strongest figure of each peer, for what both do."""
    found = {}
    if results["gem"]:
        found["text, unwrapped / GEM text"] = results["single"]["text, unwrapped"] / results["gem"]["steps"]
    if results["gym-sokoban"]:
        peer, rgb = results["gym-sokoban"], results["single"]["rgb, tile 28, unwrapped"]
        found["rgb, unwrapped / gym-sokoban rgb_array"] = rgb / peer["steps rgb_array"]
        found["grid, unwrapped / gym-sokoban without pictures"] = (
            results["single"]["grid, unwrapped"] / peer["steps no picture"]
        )
        for side, boxes in work.kinds:
            name = f"levels {side}x{side} {boxes}"
            for ours in ("exact", "gym_sokoban"):
                found[f"{ours} {name} / gym-sokoban"] = results["levels"][f"{ours} {name}"] / peer[name]
    return found


def main() -> None:
    """Measure, and print one line per result."""
    parser = parser_of(__doc__)
    parser.add_argument("--boxoban", type=Path, help="folder of Boxoban level files, for the oracle's times")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the best counts (default 3)")
    options = parser.parse_args()
    work = TOY if options.toy else replace(FULL, rounds=options.rounds)
    results = measure(work)
    for group, values in results.items():
        for name, value in values.items():
            print(f"{group}, {name}: {value:,.0f}/s" if isinstance(value, float) else f"{group}, {name}: {value}")
    for name in ("text, unwrapped", "grid, unwrapped", "rgb, tile 28, unwrapped"):
        print_speed(f"Sokoban steps, {name}", results["single"][name])
    for name, value in ratios(results, work).items():
        ours, _, peer = name.partition(" / ")
        print_ratio(f"Sokoban: {ours}", peer, value)
    if options.boxoban:
        print_oracle(options.boxoban)


if __name__ == "__main__":
    main()
