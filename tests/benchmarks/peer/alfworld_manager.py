"""A list of ALFWorld games in verl-agent's interface: our manager beside the alfworld package's TextWorld environments.

    pip install -e '.[alfworld]'
    python tests/benchmarks/peer/alfworld_manager.py [--games ../shared/data/alfworld] [--out FILE.json]

Both sides play the same released games with the same commands, a batch of them at a time, in one process and in turns: a step of
the whole batch by ours, then by theirs. Ours does all that verl-agent's manager does: it parses completions, fills prompts with the
last turns, lists commands, and records the episodes. Theirs is what a worker of verl-agent holds, the environment of
``AlfredTWEnv.init_env`` with its wrappers, without Ray, subprocess, parsing and prompts, which is to its advantage. Replies,
commands and success are compared at every step. CPU time of this process; the unit of the intervals is the game.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.alfworld.game_files.folder import find_root, game_paths
from creditflow.train.adapters.verl_agent.environments import make_envs
from creditflow.train.statistics import t_quantile

ROOT = Path(__file__).resolve().parents[3]


def open_theirs(path: Path) -> Any:
    """The environment of one worker of verl-agent, without its subprocess."""
    import textworld
    import textworld.gym
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

    asked = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    wrappers = [AlfredDemangler(shuffle=False), AlfredInfos]
    name = textworld.gym.register_games([str(path)], asked, batch_size=1, asynchronous=False, wrappers=wrappers)
    return textworld.gym.make(name)


def open_ours(games: int, folder: str, steps: int) -> Any:
    """verl-agent's manager over our environment, one episode per game."""
    return make_envs(
        {
            "env": {
                "env_name": "alfworld/AlfredTWEnv", "seed": 0, "max_steps": steps, "history_length": 2, "rollout": {"n": 1},
                "creditflow": {"panel": "", "valid_panel": "", "options": {"data_path": folder, "split": "valid_seen"}},
            },
            "data": {"train_batch_size": games, "val_batch_size": games},
            "algorithm": {"adv_estimator": "gigpo", "gamma": 0.95},
            "actor_rollout_ref": {"actor": {"use_invalid_action_penalty": True, "invalid_action_penalty_coef": 0.1}},
        }
    )[0]  # fmt: skip


def spent(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the CPU seconds that it took."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def quietly(work: Callable[[], Any]) -> Any:
    """Without the planner's messages; it also replaces the program's arguments."""
    argv = sys.argv
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return work()
    finally:
        sys.argv = argv


def play(paths: list[Path], folder: str, steps: int, rng: np.random.Generator) -> dict[str, Any]:
    """Play a batch on both sides; CPU seconds per game of theirs, per batch of ours."""
    manager = open_ours(len(paths), folder, steps)
    source = manager._source
    named = [{"task": dict(source.from_content(str(path)).content)} for path in paths]
    manager.reset(kwargs=named)  # once before: games are parsed once per process
    (_, infos), reset_ours = spent(lambda: manager.reset(kwargs=named))
    theirs, reset_theirs, listed = [], [], []
    for path in paths:
        env = quietly(partial(open_theirs, path))
        quietly(env.reset)
        (_, info), seconds = spent(partial(quietly, env.reset))
        theirs.append(env)
        reset_theirs.append(seconds)
        listed.append(info["admissible_commands"][0])
    step_ours, step_theirs = list[tuple[float, int]](), [list[float]() for _ in paths]
    count = np.zeros(len(paths), int)
    running = [True] * len(paths)
    for _ in range(steps):
        for i, info in enumerate(infos):
            assert not running[i] or info["admissible_commands"] == sorted(listed[i]), paths[i]
        chosen = [info["admissible_commands"][int(rng.integers(len(info["admissible_commands"])))] if on else "look"
                  for info, on in zip(infos, running, strict=True)]  # fmt: skip
        (_, _, dones, infos), seconds = spent(
            partial(manager.step, [f"<think>t</think><action>{one}</action>" for one in chosen])
        )
        step_ours.append((seconds, sum(running)))
        for i in [i for i, on in enumerate(running) if on]:
            (text, _, _, info), seconds = spent(partial(theirs[i].step, [chosen[i]]))
            step_theirs[i].append(seconds)
            listed[i] = info["admissible_commands"][0]
            assert bool(info["won"][0]) == infos[i]["won"]
            shown = manager._slots[i].episode.observation
            assert text[0].strip() in shown, (text[0], shown)
            count[i] += 1
            running[i] = not dones[i]
        if not any(running):
            break
    ours = sum(seconds for seconds, _ in step_ours) / sum(alive for _, alive in step_ours)
    return {
        "ours": {"reset_seconds": reset_ours / len(paths), "step_seconds": ours},
        "theirs": [
            {"reset_seconds": a, "step_seconds": float(np.mean(b)), "steps": int(n)}
            for a, b, n in zip(reset_theirs, step_theirs, count, strict=True)
        ],
    }


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Rates, and ratios with their 95 % interval over games (geometric means)."""
    found: dict[str, Any] = {}
    for part in ("step_seconds", "reset_seconds"):
        logs = [np.log(game[part] / one["ours"][part]) for one in rounds for game in one["theirs"]]
        middle, low, high = (float(np.exp(value)) for value in _interval(logs))
        found[part.replace("_seconds", "")] = {
            "ours_per_second": float(np.exp(-np.mean([np.log(one["ours"][part]) for one in rounds]))),
            "theirs_per_second": float(np.exp(-np.mean([np.log(game[part]) for one in rounds for game in one["theirs"]]))),
            "ratio": middle, "ratio_low": low, "ratio_high": high, "games": len(logs),
        }  # fmt: skip
    return found


def _interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval by Student's t."""
    mean = float(np.mean(values))
    half = t_quantile(len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return mean, mean - half, mean + half


def main() -> None:
    """Measure, print the ratios, and store them."""
    parser = argparse.ArgumentParser(description="Speed of a batch of ALFWorld games beside TextWorld's.")
    parser.add_argument("--games", default=str(ROOT.parent / "shared/data/alfworld"), help="folder of released games")
    parser.add_argument("--count", type=int, default=12, help="games (default 12)")
    parser.add_argument("--batch", type=int, default=6, help="games played at a time (default 6)")
    parser.add_argument("--steps", type=int, default=25, help="steps of each (default 25)")
    parser.add_argument("--out", help="JSON file to write")
    options = parser.parse_args()
    machine = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start"
    paths = game_paths(find_root(options.games), "valid_seen")
    paths = paths[:: max(1, len(paths) // options.count)][: options.count]
    rng = np.random.default_rng(0)
    rounds = [
        play([Path(path) for path in paths[at : at + options.batch]], options.games, options.steps, rng)
        for at in range(0, len(paths), options.batch)
    ]
    found = summary(rounds)
    for part, row in found.items():
        print(
            f"{part:6} ours {row['ours_per_second']:10,.0f} per s   theirs {row['theirs_per_second']:8,.1f} per s   "
            f"ratio {row['ratio']:8,.0f} [{row['ratio_low']:,.0f}, {row['ratio_high']:,.0f}] over {row['games']} games"
        )
    if options.out:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True, cwd=ROOT
        )
        page = {
            "command": "python tests/benchmarks/peer/alfworld_manager.py --out FILE.json",
            "commit": commit.stdout.strip(), "date": time.strftime("%Y-%m-%d"), "machine": machine,
            "python": platform.python_version(), "textworld": version("textworld"), "alfworld": version("alfworld"),
            "results": found, "rounds": rounds,
        }  # fmt: skip
        Path(options.out).write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
