"""Speed of ALFWorld, and its ratio to TextWorld's engine in the same run, if that is installed.

    python tests/benchmarks/bench_alfworld.py [--toy] [--games ../shared/data/alfworld]

Without the folder of released games, generated houses are played.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import leave_out, parser_of, print_ratio, print_speed

from creditflow.envs.alfworld.engines import RealEngine
from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.game_files.folder import find_root, game_paths
from creditflow.envs.alfworld.game_files.reading import content_from_file
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


def compare_with_textworld(games: Sequence[Game], steps: int, rng: np.random.Generator, rules: float) -> None:
    """Time the same commands in TextWorld's engine; ``rules`` are this package's steps per second with the rules alone."""
    real = RealEngine()
    theirs = ours = resetting = 0.0
    count = 0
    for game in games:
        real.start(game_fields(game))
        resetting += timed(real.restart)
        twin = ALFWorldEnv(game=game.content)
        _, info = twin.reset()
        for _ in range(steps):
            actions = info["admissible_actions"]
            if not actions:
                break
            action = actions[int(rng.integers(len(actions)))]
            theirs += timed(partial(real.step, action))
            began = time.process_time()
            *_, info = twin.step(action)
            ours += time.process_time() - began
            count += 1
    print(
        f"TextWorld's engine                  {count / theirs:12,.1f} per s   reset {resetting / len(games) * 1e3:8.0f} ms"
    )
    print_ratio(
        "ALFWorld steps, environment with cold caches", "TextWorld's engine, the same commands in turns", theirs / ours
    )
    print_ratio("ALFWorld steps, rules alone", "TextWorld's engine", rules * theirs / count)


def main() -> None:
    """Measure, and print one line per result."""
    parser = parser_of(__doc__)
    parser.add_argument("--games", default=str(ROOT.parent / "shared/data/alfworld"), help="folder of released games")
    options = parser.parse_args()
    seeds, steps = (4, 500) if options.toy else (100, 40_000)
    rng = np.random.default_rng(0)
    print(f"load average {os.getloadavg()[0]:.1f}; CPU seconds of this process")
    made = [timed(partial(generate, seed, SPLITS[seed % 3])) for seed in range(3 * seeds)]
    print(
        f"generate a house                    mean {np.mean(made) * 1e3:8.2f} ms   p95 {np.quantile(made, 0.95) * 1e3:8.2f} ms"
    )
    contents = [generate(seed) for seed in range(seeds)]
    env = ALFWorldEnv()
    if Path(options.games).is_dir():
        contents = [content_from_file(path) for path in game_paths(find_root(options.games), "valid_seen")[:seeds]]
        env = ALFWorldEnv(data_path=options.games, split="valid_seen")
    else:
        leave_out("released games", f"there is no folder {options.games}; generated houses are played")

    compiled = [timed(partial(Game, content)) for content in contents]
    print(f"compile a game                      mean {np.mean(compiled) * 1e3:8.2f} ms")
    for seed in range(min(seeds, 40)):
        env.reset(seed=seed)
    resets = [timed(partial(env.reset, seed=seed)) for seed in range(min(seeds, 40))]
    print(f"reset of a parsed game              mean {np.mean(resets) * 1e3:8.3f} ms   max {max(resets) * 1e3:8.3f} ms")
    games = [Game(content) for content in contents]
    distances = [timed(partial(ALFWorldOracle().assess_world, World(game))) for game in games]
    print(
        f"oracle, distance and all best moves mean {np.mean(distances) * 1e3:8.2f} ms   max {max(distances) * 1e3:8.2f} ms"
    )
    began = time.process_time()
    played = env_steps(env, range(min(seeds, 60)), rng)
    whole = played / (time.process_time() - began)
    print_speed("ALFWorld steps with keys, info and admissible actions", whole)
    alone = steps / timed(partial(rules_steps, World(games[0]), steps, rng))
    print_speed("ALFWorld steps, rules alone", alone)
    if importlib.util.find_spec("alfworld") is None:
        leave_out("TextWorld's engine", "not installed here; .ci/venv alfworld alfworld does, and compiles C++")
        return
    compare_with_textworld(games[:2] if options.toy else games[:6], 5 if options.toy else 25, rng, alone)


if __name__ == "__main__":
    main()
