"""Speed of ALFWorld, and its ratio to TextWorld's engine in the same run, if that is installed.

python tests/benchmarks/bench_alfworld.py [--games ../shared/data/alfworld]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from creditflow.envs.alfworld.engines import RealEngine
from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.folder import find_root, game_paths
from creditflow.envs.alfworld.game_files.reading import content_from_file, fields_from_file
from creditflow.envs.alfworld.generator import SPLITS, generate
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.world import World

ROOT = Path(__file__).resolve().parents[2]


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call (wall-clock time would include other work on the machine)."""
    began = time.process_time()
    work()
    return time.process_time() - began


def parse_game(path: Path) -> Game:
    """Parse and compile a released game."""
    return Game(content_from_file(path))


def env_steps(env: ALFWorldEnv, seeds: range, rng: np.random.Generator) -> int:
    """Take random admissible steps in the environment, info and keys included; returns their number."""
    count = 0
    for seed in seeds:
        _, info = env.reset(seed=seed)
        while info["admissible_actions"]:
            actions = info["admissible_actions"]
            *_, info = env.step(actions[int(rng.integers(len(actions)))])
            count += 1
    return count


def rules_steps(world: World, steps: int, rng: np.random.Generator) -> None:
    """Take random steps with the rules alone: reply, sorted commands, goal check."""
    for _ in range(steps):
        commands = admissible_commands(world).commands
        act(world, admissible_commands(world).by_text[commands[int(rng.integers(len(commands)))]])
        world.won()


def compare_with_textworld(
    paths: Sequence[Path], games: int, steps: int, rng: np.random.Generator, environment: float, rules: float
) -> None:
    """Time the same commands in TextWorld's engine; ``environment`` and ``rules`` are this package's steps per second."""
    real = RealEngine()
    spent = native = resetting = 0.0
    count = 0
    for path in paths[:: max(1, len(paths) // games)][:games]:
        real.start(fields_from_file(path))
        resetting += timed(real.restart)
        twin = ALFWorldEnv(game=str(path))
        _, info = twin.reset()
        for _ in range(steps):
            actions = info["admissible_actions"]
            if not actions:
                break
            action = actions[int(rng.integers(len(actions)))]
            spent += timed(partial(real.step, action))
            began = time.process_time()
            *_, info = twin.step(action)
            native += time.process_time() - began
            count += 1
    theirs = count / spent
    print(f"TextWorld's engine                  {theirs:12,.1f} per s   reset {resetting / games * 1e3:8.0f} ms")
    print(f"ratio, environment : TextWorld      {environment / theirs:12,.0f}   (hot loop)")
    print(f"ratio, rules alone : TextWorld      {rules / theirs:12,.0f}")
    print(
        f"ratio, step by step alternating     {spent / native:12,.0f}   (environment with cold caches, same commands)"
    )


def main() -> None:
    """Measure, and print one line per result."""
    parser = argparse.ArgumentParser(description="Speed of ALFWorld.")
    parser.add_argument("--games", default=str(ROOT.parent / "shared/data/alfworld"), help="folder of released games")
    parser.add_argument("--real-games", type=int, default=6, help="games played in TextWorld's engine too (default 6)")
    parser.add_argument("--real-steps", type=int, default=25, help="commands in each of these (default 25)")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    paths = game_paths(find_root(options.games), "valid_seen")
    print(f"load average {os.getloadavg()[0]:.1f}; CPU seconds of this process")

    parse = [timed(partial(parse_game, path)) for path in paths]
    print(f"parse and compile a released game   mean {np.mean(parse) * 1e3:8.2f} ms")
    env = ALFWorldEnv(data_path=options.games, split="valid_seen")
    for seed in range(40):
        env.reset(seed=seed)
    resets = [timed(partial(env.reset, seed=seed)) for seed in range(40)]
    print(f"reset of a parsed game              mean {np.mean(resets) * 1e3:8.3f} ms   max {max(resets) * 1e3:8.3f} ms")
    made = [timed(partial(generate, seed, SPLITS[seed % 3])) for seed in range(300)]
    print(
        f"generate a house                    mean {np.mean(made) * 1e3:8.2f} ms   p95 {np.quantile(made, 0.95) * 1e3:8.2f} ms"
    )
    distances = [timed(partial(ALFWorldOracle().assess_world, World(Game(generate(seed))))) for seed in range(100)]
    print(
        f"oracle, distance and all best moves mean {np.mean(distances) * 1e3:8.2f} ms   max {max(distances) * 1e3:8.2f} ms"
    )

    began = time.process_time()
    steps = env_steps(env, range(60), rng)
    whole = steps / (time.process_time() - began)
    print(f"environment steps                   {whole:12,.0f} per s   (keys, info and admissible list included)")
    world = World(Game(content_from_file(paths[0])))
    alone = 40_000 / timed(partial(rules_steps, world, 40_000, rng))
    print(f"rules alone                         {alone:12,.0f} per s")

    if importlib.util.find_spec("alfworld") is None:
        print("TextWorld's engine is not installed: no ratio (pip install -e '.[alfworld]')")
        return
    compare_with_textworld(paths, options.real_games, options.real_steps, rng, whole, alone)


if __name__ == "__main__":
    main()
