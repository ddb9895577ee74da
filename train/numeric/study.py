"""Learning curves of PPO on Sokoban's vector environment, with and without dense rewards, on trained and held-out levels.

Two implementations, ``ppo.py`` here and that of Stable-Baselines3, with the same networks, hyper-parameters, levels and
numbers of environment steps, so that a difference between rewards can be told from one between implementations.

  python -m creditflow.train.numeric.study --steps 150000 --seeds 5 --out runs/numeric
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.envs.files.atomic import write_json
from creditflow.envs.tasks import parse_panel_spec
from creditflow.train.commands.arguments.options import positive
from creditflow.train.commands.arguments.outputs import Output, add_output, named
from creditflow.train.commands.arguments.programs import run_program
from creditflow.train.numeric.environments import REWARDS, make_envs, success_by_task
from creditflow.train.statistics.student import t_quantile

__all__ = ["METHODS", "add_arguments", "learning_curve", "main", "run"]

METHODS: Final = ("ppo.py", "stable-baselines3")
NUM_ENVS: Final = 64
POINTS: Final = 10
TRAINED, HELD_OUT = "small-v1:train", "small-v1:test"
Act = Callable[[NDArray[Any]], NDArray[np.int64]]
Curve = list[list[float]]  # per point: success on trained, on held-out levels


def learning_curve(method: str, reward: str, *, steps: int, seed: int) -> Curve:
    """Train once; return success on trained and held-out levels at ``POINTS`` equally distant numbers of steps.

    Raises:
        MissingExtraError: torch or stable-baselines3 is not installed.
        ConfigError: fewer steps than ``POINTS`` updates take.
    """
    try:
        import torch

        from creditflow.train.numeric.ppo import Options
    except ImportError as error:
        raise MissingExtraError("torch", "train") from error
    torch.set_num_threads(1)
    options, curve = Options(), Curve()
    batch = options.batch_steps * NUM_ENVS
    if steps < POINTS * batch:
        raise ConfigError(
            f"a curve of {POINTS} points needs at least {POINTS * batch:,} steps, {batch:,} for each update, got {steps:,}"
        )
    due = [round((point + 1) * steps / POINTS / batch) * batch for point in range(POINTS)]
    tasks = {panel: [row.task_id for row in parse_panel_spec("sokoban", panel)] for panel in (TRAINED, HELD_OUT)}

    def measure(done: int, act: Act) -> None:
        if len(curve) < POINTS and done >= due[len(curve)]:
            curve.append([float(success_by_task(act, panel, ids).mean()) for panel, ids in tasks.items()])

    envs = make_envs(reward, NUM_ENVS, panel=TRAINED, gamma=options.gamma)
    learn = _learn_here if method == METHODS[0] else _learn_sb3
    learn(envs, options, due[-1], seed, measure)
    return curve


def _learn_here(envs: Any, options: Any, steps: int, seed: int, measure: Callable[[int, Act], None]) -> None:
    from creditflow.train.numeric.ppo import learn

    rng = np.random.default_rng([seed, 1])
    learn(
        envs, options, steps=steps, seed=seed,
        after_batch=lambda done, policy: measure(done, lambda obs: policy.act(obs, rng)),
    )  # fmt: skip


def _learn_sb3(envs: Any, options: Any, steps: int, seed: int, measure: Callable[[int, Act], None]) -> None:
    try:
        from stable_baselines3 import PPO
        from stable_baselines3.common.callbacks import BaseCallback
    except ImportError as error:
        raise MissingExtraError("stable-baselines3", "sb3") from error
    from creditflow.train.adapters.sb3.vec_env import VectorEnvAdapter

    class Measure(BaseCallback):
        """Measures before every rollout, which is after an update."""

        def _on_rollout_start(self) -> None:
            if self.num_timesteps:
                measure(self.num_timesteps, lambda obs: self.model.predict(obs)[0])

        def _on_step(self) -> bool:
            return True

    hidden = [options.hidden, options.hidden]
    model = PPO(
        "MlpPolicy", VectorEnvAdapter(envs), seed=seed, device="cpu", n_steps=options.batch_steps, n_epochs=options.epochs,
        batch_size=options.minibatch, learning_rate=options.learning_rate, gamma=options.gamma,
        gae_lambda=options.gae_lambda, clip_range=options.clip, ent_coef=options.entropy, vf_coef=options.value,
        max_grad_norm=options.max_norm, policy_kwargs={"net_arch": {"pi": hidden, "vf": hidden}},
    )  # fmt: skip
    model.learn(steps, callback=Measure())
    measure(steps, lambda obs: model.predict(obs)[0])


def summary(curves: Mapping[str, Mapping[str, Sequence[Curve]]]) -> list[dict[str, Any]]:
    """Return final success and area under the curve of every method and reward, means over seeds with 95 % intervals."""
    rows = []
    for method, rewards in curves.items():
        for reward, runs in rewards.items():
            values = np.array(runs)  # (seeds, points, 2)
            row: dict[str, Any] = {"method": method, "reward": reward, "seeds": len(values)}
            for index, name in enumerate(("trained", "held_out")):
                row[f"final_{name}"] = interval(values[:, -1, index])
                row[f"area_{name}"] = interval(values[:, :, index].mean(axis=1))
                if reward != REWARDS[0]:
                    base = np.array(rewards[REWARDS[0]])
                    paired = values[:, :, index].mean(axis=1) - base[:, :, index].mean(axis=1)
                    row[f"area_{name}_minus_sparse"] = interval(paired)
            rows.append(row)
    return rows


def interval(values: NDArray[np.float64]) -> list[float]:
    """Return mean, low and high end of its 95 % interval by Student's t over seeds, of which there are at least two."""
    mean = float(values.mean())
    half = t_quantile(len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5
    return [round(number, 4) for number in (mean, mean - half, mean + half)]


def plot(curves: Mapping[str, Mapping[str, Sequence[Curve]]], steps: int, path: Path) -> None:
    """Plot success on trained and held-out levels, one pair of axes per method, with 95 % intervals over seeds."""
    from creditflow.train.bench.report.figures import COLOURS, new_figure, panels, save_figure, tidy

    figure = new_figure(9.6, 4.0)
    at = (np.arange(POINTS) + 1) * steps / POINTS
    for axes, (method, rewards) in panels(figure, list(curves.items()), sharey=True):
        for colour, (reward, runs) in zip(COLOURS, rewards.items(), strict=False):
            values = np.array(runs)
            for index, style in enumerate(("-", "--")):
                ends = np.array([interval(values[:, point, index]) for point in range(POINTS)])
                name = f"{reward}, {'held-out' if index else 'trained'} levels"
                axes.plot(at, ends[:, 0], style, color=colour, label=name)
                axes.fill_between(at, ends[:, 1], ends[:, 2], color=colour, alpha=0.12, linewidth=0)
        axes.set(title=method, xlabel="environment steps", ylim=(0, None))
        tidy(axes)
    figure.axes[0].set_ylabel("fraction of levels solved")
    figure.axes[0].legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    parser.add_argument("--steps", type=positive, default=150_000, help="environment steps per run (default 150000)")
    parser.add_argument("--seeds", type=positive, default=5, help="runs per method and reward (default 5)")
    add_output(
        parser, "--out", Output(kind="folder", owned=named("numeric.json", "numeric.png")), required=True, metavar="DIR",
        help="folder to write numeric.json and numeric.png to",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the study."""
    from creditflow.train.bench.report.figures import require_plots
    from creditflow.train.bench.report.provenance import provenance
    from creditflow.train.numeric.ppo import Options

    if args.seeds < 2:
        raise ConfigError("intervals are over seeds: --seeds must be at least 2")
    require_plots()
    curves: dict[str, dict[str, list[Curve]]] = {}
    for method in METHODS:
        for reward in REWARDS:
            runs = [learning_curve(method, reward, steps=args.steps, seed=seed) for seed in range(args.seeds)]
            curves.setdefault(method, {})[reward] = runs
            ends = [interval(np.array(runs)[:, -1, index]) for index in (0, 1)]
            print(f"{method:18} {reward:11} solved at the end: trained {ends[0]}, held-out {ends[1]}", flush=True)
    out = Path(args.out)
    facts = provenance([], 0) | {"command": args.command_line, "options": asdict(Options()), "num_envs": NUM_ENVS}
    document = {
        "provenance": facts, "steps": args.steps, "points": POINTS, "panels": [TRAINED, HELD_OUT],
        "summary": summary(curves),
        "curves": {m: {r: np.round(runs, 4).tolist() for r, runs in rewards.items()} for m, rewards in curves.items()},
    }  # fmt: skip
    write_json(out / "numeric.json", document)
    plot(curves, args.steps, out / "numeric.png")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    return run_program("creditflow.train.numeric.study", arguments)


if __name__ == "__main__":
    sys.exit(main())
