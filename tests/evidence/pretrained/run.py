"""Credit schemes on a pretrained model: imitation once per seed, then every scheme from the same model; README.md has the predictions.

  python tests/evidence/pretrained/run.py --model models/smollm2 --out results.jsonl [--seeds 4] [--schemes grpo,stateless]
      [--work FOLDER] [--workers 2] [--set KEY=VALUE]
  python tests/evidence/pretrained/run.py --out results.jsonl --table

A line is appended for each finished run. Called again, the command does the runs that are missing, and continues one that was interrupted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

import creditflow
from creditflow.envs.core import AgentEnv
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.values import evaluate
from creditflow.train.bench.language_model.policy import ExactPolicy
from creditflow.train.bench.language_model.tables import prompt_table
from creditflow.train.run.assemble import make_policy_agent
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.schema import TrainConfig, load_settings
from creditflow.train.statistics import normal_interval
from creditflow.train.text_table import text_table
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.trajectory import Group

__all__ = ["SCHEMES", "ExactAdvantage", "Study", "missing", "settings_of", "table"]

TOLERANCE: Final = (
    1e-2  # probability per turn of completions that are counted as invalid without being read; more costs minutes
)
Floats = NDArray[np.float64]
RECIPE: Final = Path(__file__).resolve().parents[3] / "train/configs/smollm2_sokoban.yaml"
SCHEMES: Final = ("grpo", "stateless", "grouptd", "exact", "gigpo", "graphgpo")
PRIMARY: Final = ("grouptd", "stateless")
GROUPTD: Final = "{td_lambda: 0.6, divide_by_success: true, progress_weight: 2.0, progress_count: 8.0, merge_test: 4.0}"


def settings_of(work: Path, model: str, scheme: str, seed: int, overrides: Sequence[str] = ()) -> TrainConfig:
    """The settings of a run; those of "sft" imitate, all others begin with its model."""
    out = work / f"{scheme}-{seed}"
    if scheme == "sft":
        given: tuple[str, ...] = (f"model.path={model}", "update.iterations=0")
        overrides = [setting for setting in overrides if not setting.startswith("update.")]
    else:
        parameters = GROUPTD if scheme == "grouptd" else "{}"
        overrides = [setting for setting in overrides if not setting.startswith("sft.")]
        named = "grpo" if scheme == "exact" else scheme  # ExactAdvantage takes its place
        given = (
            f"model.path={work / f'sft-{seed}' / 'model'}", "sft.episodes=0", f"credit.scheme={named}",
            f"credit.parameters={parameters}", "update.iterations=8", "evaluation.panel=", "update.loss.aggregation=trajectory_mean",
        )  # fmt: skip
    return load_settings(RECIPE, (f"out={out}", f"seed={seed}", *given, *overrides))


def missing(done: Sequence[Mapping[str, Any]], seeds: int, schemes: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Seed and scheme of the runs that have no line yet, seed by seed, imitation first."""
    known = {(row["seed"], row["scheme"]) for row in done}
    for seed in range(seeds):
        yield from ((seed, scheme) for scheme in ("sft", *schemes) if (seed, scheme) not in known)


class ExactAdvantage:
    """In place of a scheme: A(s, a) of the policy that acted, from a table of every state that a level can reach."""

    name = "exact"

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.env = _bare_env(trainer.settings)
        self.tasks = {task.task_id: task for task in trainer.tasks}

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """The credit of groups that the present policy has played."""
        settings = self.trainer.settings
        agent = make_policy_agent(
            settings, self.trainer.backend, self.trainer.tokenizer, temperature=settings.rollout.temperature
        )
        tables = [prompt_table(agent, self.env, self.tasks[group.task_id]) for group in groups]
        actions = tables[0].actions
        policy = ExactPolicy.of_agent(agent, self.trainer.tokenizer, self.env, actions, tolerance=TOLERANCE)
        chosen = policy.probabilities(tables, settings.rollout.temperature)
        return [
            Credit.of(group, outcome=np.zeros(len(group)), step=_advantages(group, table.mdp, probabilities))
            for group, table, probabilities in zip(groups, tables, chosen, strict=True)
        ]


def _bare_env(settings: TrainConfig) -> AgentEnv[Any, Any, Any]:
    return cast("AgentEnv[Any, Any, Any]", creditflow.make(settings.env.name, **settings.env.options).unwrapped)


def _advantages(group: Group, mdp: FiniteMDP, policy: Floats) -> Floats:
    """float64 (N,): A_h(s, a) of every turn, h = turns left before it."""
    advantage = evaluate(mdp, policy).advantage
    number = {action: i for i, action in enumerate(mdp.actions)}
    invalid = len(mdp.actions) - 1
    return np.array(
        [
            advantage[
                mdp.horizon - t,
                mdp.index[turn.state_key],
                number[turn.action_key or turn.action] if turn.valid else invalid,
            ]
            for trajectory in group.trajectories
            for t, turn in enumerate(trajectory.turns)
        ]
    )


def _run(settings: TrainConfig, scheme: str) -> dict[str, Any]:
    """Run or continue a run; the numbers of its final evaluation."""
    from creditflow.train.trainer import Trainer

    folder = Path(settings.out)
    trainer = Trainer(settings, resume=(folder / "checkpoints").is_dir())
    if scheme == "exact":
        trainer.scheme = cast("Scheme", ExactAdvantage(trainer))
    trainer.run()
    records = read_metrics(folder / "metrics.jsonl")
    return next(record for record in reversed(records) if "sampled" in record)


@dataclass(frozen=True)
class Study:
    """The runs of a study, and where they are kept.

    Attributes:
        model: folder of the imported model.
        out: results, one line per run.
        work: folder of the runs.
        seeds: number of seeds.
        schemes: the arms.
        overrides: settings, "KEY=VALUE".
    """

    model: str
    out: Path
    work: Path
    seeds: int = 4
    schemes: Sequence[str] = SCHEMES
    overrides: Sequence[str] = ()

    def results(self) -> list[dict[str, Any]]:
        """The rows of the finished runs."""
        return [json.loads(line) for line in self.out.read_text("utf-8").splitlines()] if self.out.exists() else []

    def run(self, workers: int = 1) -> list[dict[str, Any]]:
        """Do the runs that are missing, several seeds at the same time; returns all results."""
        todo = [*missing(self.results(), self.seeds, self.schemes)]
        by_seed = [[run for run in todo if run[0] == seed] for seed in dict.fromkeys(seed for seed, _ in todo)]
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for _ in pool.map(self.run_seed, by_seed):
                pass
        return self.results()

    def run_seed(self, runs: Sequence[tuple[int, str]]) -> None:
        """Do runs of one seed in order, and append a line to the results after each; imitation again if its model is not here."""
        for seed, scheme in runs:
            if scheme != "sft" and not (self.work / f"sft-{seed}" / "model").is_dir():
                _run(settings_of(self.work, self.model, "sft", seed, self.overrides), "sft")
            row = {"scheme": scheme, "seed": seed} | _run(
                settings_of(self.work, self.model, scheme, seed, self.overrides), scheme
            )
            with self.out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
            print(
                f"{scheme} {seed}: {row['sampled']:.3f} [{row['sampled_ci_low']:.3f}, {row['sampled_ci_high']:.3f}]",
                flush=True,
            )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds with 95 % intervals, and the differences to the primary contrast's control, paired by seed."""
    by = {(row["scheme"], row["seed"]): float(row["sampled"]) for row in rows}
    seeds = sorted({seed for _, seed in by})
    lines = []
    for scheme in dict.fromkeys(scheme for scheme, _ in by):
        found = np.array([by[scheme, seed] for seed in seeds if (scheme, seed) in by])
        paired = np.array(
            [by[scheme, s] - by[PRIMARY[1], s] for s in seeds if (scheme, s) in by and (PRIMARY[1], s) in by]
        )
        lines.append((scheme, str(len(found)), _shown(found), _shown(paired)))
    return text_table([("arm", "seeds", "success", f"minus {PRIMARY[1]}"), *lines])


def _shown(values: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    if len(values) < 2:
        return f"{values.mean():.3f}" if len(values) else ""
    low, high = normal_interval(values)
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="models/smollm2", help="folder of the imported model")
    parser.add_argument("--out", type=Path, required=True, help="results, one line per run")
    parser.add_argument("--work", type=Path, default=Path("runs/pretrained"), help="folder of the runs")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1, help="seeds that run at the same time, one core each")
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--table", action="store_true", help="print the table of the results, and run nothing")
    options = parser.parse_args()
    study = Study(
        options.model, options.out, options.work, options.seeds, options.schemes.split(","), tuple(options.set)
    )
    print(table(study.results() if options.table else study.run(options.workers)))


if __name__ == "__main__":
    main()
