"""Stable-Baselines3 on creditflow's environments, with and without a dense reward.

The smallest complete use of ``DenseReward`` with a critic: PPO on a few Sokoban levels, the potential learned from the
episodes that PPO itself plays, one new version after every batch of rollouts.

  python -m creditflow.train.adapters.sb3.training --steps 20000 --seeds 5 --out runs/sb3
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.envs.files.atomic import write_json
from creditflow.envs.registration import make
from creditflow.envs.tasks import load_panel
from creditflow.train.commands.arguments.outputs import Output, add_output, named
from creditflow.train.commands.arguments.programs import run_program
from creditflow.wrappers.dense_reward import DenseReward
from creditflow.wrappers.potentials import PotentialStore
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["VARIANTS", "LearningCurve", "PlayTasks", "add_arguments", "learn_ppo", "main", "run"]

ENVS = 4
BATCH_STEPS = 128  # per environment between two updates
GAMMA = 0.97  # PPO's discount, and therefore the shaping's
# name -> scheme and options of DenseReward; None: the environment's own reward
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]] | None] = {
    "sparse": None,
    "rewardflow": ("rewardflow", {}),
    "grouptd": ("grouptd", {}),
    "rewardflow, paper": ("rewardflow", {"terminal": "paper"}),
}


class PlayTasks(gym.Wrapper[Any, Any, Any, Any]):
    """Sample a task at every reset and collect finished episodes.

    Args:
        env: environment with a ``Recorder`` inside.
        task_ids: ids of the tasks to sample from.
        finished: list to which the trajectory of every finished episode is appended.
        rng: source of randomness.

    Raises:
        ConfigError: there is no ``Recorder`` inside the environment.
    """

    def __init__(
        self, env: gym.Env[Any, Any], task_ids: Sequence[str], finished: list[Trajectory], rng: np.random.Generator
    ) -> None:
        super().__init__(env)
        layer: gym.Env[Any, Any] = env
        while not isinstance(layer, Recorder):
            if not isinstance(layer, gym.Wrapper):
                raise ConfigError("PlayTasks needs a Recorder inside the environment: PlayTasks(Recorder(env), …)")
            layer = layer.env
        self._recorder = layer
        self._tasks, self._finished, self._rng = tuple(task_ids), finished, rng

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of a sampled task, unless ``options`` are given."""
        task = self._tasks[int(self._rng.integers(len(self._tasks)))]
        return self.env.reset(seed=seed, options={"task_id": task} if options is None else options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Execute one action; a NumPy integer is converted to an int."""
        outcome = self.env.step(int(action))
        if outcome[2] or outcome[3]:
            self._finished.append(self._recorder.trajectory)
        return outcome


@dataclass
class LearningCurve:
    """Learning curve of one run.

    Attributes:
        steps: environment steps at the ends of episodes.
        success: success flags of these episodes.
        version: version of the potential at the end.
    """

    steps: list[int] = field(default_factory=list)
    success: list[bool] = field(default_factory=list)
    version: int = 0


def learn_ppo(task_ids: Sequence[str], variant: str, *, steps: int, seed: int) -> LearningCurve:
    """Run PPO once; return its learning curve.

    Args:
        task_ids: Sokoban tasks of the embedded panel.
        variant: a key of ``VARIANTS``.
        steps: environment steps.
        seed: random seed of PPO and of the sampled tasks.

    Raises:
        MissingExtraError: stable-baselines3 is not installed.
    """
    try:
        import torch
        from stable_baselines3 import PPO
        from stable_baselines3.common.vec_env import DummyVecEnv
    except ImportError as error:
        raise MissingExtraError("stable-baselines3", "sb3") from error
    torch.set_num_threads(1)
    chosen = VARIANTS[variant]
    store = None if chosen is None else PotentialStore(chosen[0])
    finished: list[Trajectory] = []
    learned = LearningCurve()

    def build(rank: int) -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = Recorder(
            make("sokoban", panel="standard-v1:train", obs_mode="planes", action_mode="discrete"), texts=False
        )
        if chosen is not None:
            env = DenseReward(env, chosen[0], gamma=GAMMA, store=store, **chosen[1])
        return PlayTasks(env, task_ids, finished, np.random.default_rng([seed, rank]))

    def after_step(local: dict[str, Any], _: dict[str, Any]) -> bool:
        now = int(local["self"].num_timesteps)
        for trajectory in finished:
            learned.steps.append(now)
            learned.success.append(trajectory.success)
        finished.clear()
        if store is not None:
            learned.version = store.snapshot().version
        return True

    env = DummyVecEnv([lambda rank=rank: build(rank) for rank in range(ENVS)])
    model = PPO(
        "MlpPolicy", env, gamma=GAMMA, n_steps=BATCH_STEPS, batch_size=128, ent_coef=0.01, seed=seed, device="cpu"
    )
    model.learn(steps, callback=after_step)
    return learned


def example_tasks(count: int) -> list[str]:
    """One-box levels of the embedded panel, 6 × 6, solutions of up to 12 moves."""
    rows = load_panel("sokoban", "standard-v1").split("train")
    small = [row for row in rows if row.strata["boxes"] == 1 and row.strata["length"] <= 12]
    return [row.task_id for row in small[:count]]


def windowed(runs: Sequence[LearningCurve], steps: int, windows: int) -> NDArray[np.float64]:
    """Success rate of the episodes that ended in each window of steps: float64 (runs, windows), nan without episodes."""
    rates = np.full((len(runs), windows), np.nan)
    for i, run in enumerate(runs):
        place = np.minimum(np.array(run.steps) * windows // (steps + 1), windows - 1)
        for window in range(windows):
            mine = np.array(run.success)[place == window]
            rates[i, window] = mine.mean() if len(mine) else np.nan
    return rates


def plot(curves: Mapping[str, NDArray[np.float64]], steps: int, path: Path) -> None:
    """Plot the mean over seeds with a band of one standard error."""
    from creditflow.train.bench.report.figures import COLOURS, new_figure, save_figure, tidy

    figure = new_figure(6.4, 4)
    axes = figure.subplots()
    for i, (name, rates) in enumerate(curves.items()):
        at = (np.arange(rates.shape[1]) + 0.5) * steps / rates.shape[1]
        mean, error = rates.mean(axis=0), rates.std(axis=0, ddof=1) / np.sqrt(len(rates))
        axes.plot(at, mean, label=name, color=COLOURS[i])
        axes.fill_between(at, mean - error, mean + error, color=COLOURS[i], alpha=0.2)
    axes.set(xlabel="environment steps", ylabel="success of the episodes played", ylim=(0, 1.02))
    axes.legend(frameon=False)
    tidy(axes)
    save_figure(figure, path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    parser.add_argument("--steps", type=int, default=20_000, help="environment steps per run (default 20000)")
    parser.add_argument("--seeds", type=int, default=5, help="runs per variant (default 5)")
    parser.add_argument("--tasks", type=int, default=8, help="levels (default 8)")
    add_output(
        parser, "--out", Output(kind="folder", owned=named("sb3.json", "sb3.png")), required=True, metavar="DIR",
        help="folder to write sb3.json and sb3.png to",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the example."""
    from creditflow.train.bench.report.provenance import provenance

    tasks, out = example_tasks(args.tasks), Path(args.out)
    curves = {}
    for name in VARIANTS:
        runs = [learn_ppo(tasks, name, steps=args.steps, seed=seed) for seed in range(args.seeds)]
        curves[name] = windowed(runs, args.steps, 10)
        whole = np.array([np.mean(run.success) for run in runs])
        error = whole.std(ddof=1) / np.sqrt(len(whole))
        print(
            f"{name:20} success of all episodes {whole.mean():.3f}, standard error over {args.seeds} seeds {error:.3f}"
        )
    facts = provenance([], 0) | {"command": args.command_line, "gamma": GAMMA, "tasks": len(tasks)}
    shown = {name: np.round(rates, 4).tolist() for name, rates in curves.items()}
    write_json(out / "sb3.json", {"provenance": facts, "steps": args.steps, "success": shown})
    plot(curves, args.steps, out / "sb3.png")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    return run_program("creditflow.train.adapters.sb3.training", arguments)


if __name__ == "__main__":
    sys.exit(main())
