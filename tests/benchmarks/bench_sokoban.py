"""Speed of Sokoban beside its peers: single and vector environment, pictures, levels, the oracle.

    python -m venv /tmp/gem && /tmp/gem/bin/pip install gem-llm
    python -m venv /tmp/gs && /tmp/gs/bin/pip install 'setuptools<66' 'numpy<2' gym==0.26.2 gym-sokoban==0.0.6
    python -m venv /tmp/jx && /tmp/jx/bin/pip install jumanji
    PYTHONPATH=src python tests/benchmarks/bench_sokoban.py --gem /tmp/gem/bin/python --gym-sokoban /tmp/gs/bin/python \\
        --jumanji /tmp/jx/bin/python --boxoban ../shared/data/boxoban --out FILE.json

A peer that is not named is left out, and the output says so. All numbers are per CPU second, of all threads, best of three
rounds in which ours and the peers' programs take turns. Single environments make the same random moves on a level of 6 by 6
cells; a solved level is reset. jumanji has boards of 10 by 10 cells with four boxes only, so the vector environment is
measured at that size too; it begins the same level again, as jumanji's generator has two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from benchmarks.peer.sokoban import PEERS, run_peer

import creditflow
from creditflow.envs.files.atomic import atomic_writer
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
from creditflow.train.arguments.parser import CommandParser
from creditflow.train.bench.report.provenance import provenance

ROUNDS = 3
STEPS = 100_000
MOVES = ("up", "down", "left", "right")
SECONDS = 0.5  # of each measurement
SIZES = (128, 1024)
KINDS = ((6, 1), (6, 2), (8, 1), (8, 2), (8, 3), (10, 2))


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
    """Generated levels per second: exact ones, with solutions of 5 to 40 moves, and those of gym-sokoban's distribution."""
    results = {}
    for side, boxes in KINDS:
        exact, same = GeneratorOptions(side, side, boxes, 5, 40), GymSokobanOptions(side, side, boxes)
        for name, options in (("exact", exact), ("gym_sokoban", same)):
            rng = np.random.default_rng(0)
            began, made = time.process_time(), 0
            while time.process_time() - began < SECONDS:
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


def measure_vector() -> dict[str, float]:
    """Steps per second of the vector environment: one level, or the levels of a panel that ends every 30 steps."""
    small = generate_level(np.random.default_rng(1), GeneratorOptions(6, 6, 2, 8, 15)).xsb
    large = generate_level(np.random.default_rng(1), GeneratorOptions(10, 10, 4, 20, 80)).xsb
    results = {}
    sources: dict[str, dict[str, Any]] = {
        "6x6": {"level": small}, "10x10, 4 boxes": {"level": large}, "small-v1": {"panel": "small-v1:train"},
    }  # fmt: skip
    for name, source in sources.items():
        for mode in ("grid", "planes", "text", "rgb"):
            for size in SIZES:
                envs = gym.make_vec(
                    "creditflow/Sokoban-v0", num_envs=size, vectorization_mode="vector_entry_point", obs_mode=mode,
                    action_mode="discrete", **source,
                )  # fmt: skip
                results[f"{name}, {'rgb, tile 28' if mode == 'rgb' else mode}, N={size}"] = vector_speed(envs, size)
    return results


def vector_speed(envs: gym.vector.VectorEnv[Any, Any, Any], size: int) -> float:
    """Steps per CPU second with random actions."""
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 4, (50, size))
    for row in actions:
        envs.step(row)
    began, made = time.process_time(), 0
    while time.process_time() - began < SECONDS:
        for row in actions:
            envs.step(row)
        made += 50 * size
    return made / (time.process_time() - began)


def best(into: dict[str, Any], found: dict[str, Any]) -> None:
    """Keep the larger of two numbers of one name."""
    for name, value in found.items():
        into[name] = max(value, into[name]) if isinstance(value, float) and name in into else value


def measure(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Measure ours and every peer that is installed, in turns."""
    results: dict[str, dict[str, Any]] = {name: {} for name in ("single", "vector", "levels", *PEERS)}
    kinds = json.dumps(KINDS)
    arguments = {
        "gem": [str(STEPS // 4), kinds],
        "gym-sokoban": [str(STEPS // 4), kinds],
        "jumanji": [json.dumps(SIZES)],
    }
    for _ in range(options.rounds):
        best(results["single"], {**measure_steps(), "text, unwrapped, caches off": measure_without_caches()})
        best(results["vector"], measure_vector())
        best(results["levels"], measure_generator())
        for name, interpreter in (
            ("gem", options.gem),
            ("gym-sokoban", options.gym_sokoban),
            ("jumanji", options.jumanji),
        ):
            if interpreter:
                best(results[name], run_peer(name, interpreter, arguments[name]))
    return results


def ratios(results: dict[str, dict[str, Any]]) -> dict[str, float]:
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
        for side, boxes in KINDS:
            name = f"levels {side}x{side} {boxes}"
            for ours in ("exact", "gym_sokoban"):
                found[f"{ours} {name} / gym-sokoban"] = results["levels"][f"{ours} {name}"] / peer[name]
    if results["jumanji"]:
        for size in SIZES:
            ours = results["vector"][f"10x10, 4 boxes, grid, N={size}"]
            for loop in ("step by step", "compiled loop"):
                found[f"vector 10x10 grid N={size} / jumanji, {loop}"] = ours / results["jumanji"][f"{loop} {size}"]
    return found


def main() -> None:
    """Measure, and print one line per result."""
    parser = CommandParser(description=__doc__)
    for peer, package in (("gem", "gem-llm"), ("gym-sokoban", "gym-sokoban 0.0.6"), ("jumanji", "jumanji")):
        parser.add_argument(f"--{peer}", help=f"Python interpreter with {package} installed")
    parser.add_argument("--boxoban", type=Path, help="folder of Boxoban level files")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds, of which the best counts (default 3)")
    parser.add_argument("--out", type=Path, help="also write the results to this JSON file")
    options = parser.parse_args()
    results = measure(options)
    for group, values in results.items():
        if not values:
            print(f"{group}: not installed, or not named; left out")
        for name, value in values.items():
            print(f"{group}, {name}: {value:,.0f}/s" if isinstance(value, float) else f"{group}, {name}: {value}")
    for name, value in ratios(results).items():
        print(f"{value:,.2f} x  {name}")
    if options.boxoban:
        print_oracle(options.boxoban)
    if options.out:
        command = "python tests/benchmarks/bench_sokoban.py with the peers named above"
        facts = provenance([], 0) | {"command": command, "rounds": options.rounds, "unit": "per CPU second"}
        with atomic_writer(options.out) as stream:
            json.dump({"provenance": facts, "results": results, "ratios": ratios(results)}, stream, indent=1)


if __name__ == "__main__":
    main()
