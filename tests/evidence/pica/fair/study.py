"""The fair test of PiCA's success model; every finished part is written at once, and ``--resume`` continues.

In worlds that it was not trained on, the model must tell, in one state, a call that follows the question's relation from a call that names an
entity of equal recency by another relation. Its bar is the best linear model over the same words, and its targets are
advantages A^π from continuations of the same policy: a scripted one, and a small language model trained here.

  python tests/evidence/pica/fair/study.py --out DIR [--resume] [--force] [--quick]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from evidence.pica.fair.data import chains, rollouts
from evidence.pica.fair.mentions import with_mentions
from evidence.pica.fair.models import fit_rivals, model_scores, rival_scores, train_success_model
from evidence.pica.fair.parts import SIZES, Parts
from evidence.pica.fair.scoring import verdict
from evidence.pica.fair.states import ForkedTurn, forked_turns

from creditflow.agents.base import Agent
from creditflow.agents.language_model.pretrained import require_torch
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.labelling import label_log
from creditflow.train.annotate.success.labels import write_labels
from creditflow.train.arguments.outputs import Output, add_output, named
from creditflow.train.arguments.programs import run_program
from creditflow.train.statistics import pearson
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl

__all__ = ["QUICK", "Sizes", "add_arguments", "main", "run", "study"]

NOISE: Final = 0.4  # of the scripted policy: fraction of random listed actions
FILES: Final = ("*.jsonl", "*.json", "success", "policy", "results.json")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the study.

    Attributes:
        worlds: seeds of the worlds in which the scripted policy plays for training.
        language_world: seed of the world in which the language model plays for training; the next seed is that of its demonstrations.
        test_world: seed of the world of all tests.
        questions: of each training world of the scripted policy, of all kinds; ``language_questions`` of the language model's, ``test_questions``
            of the test world.
        episodes: per question, for training.
        policy_steps, model_steps: optimiser steps of the acting language model and of the success model.
        pairs, played: test questions with a matched pair, and with all turns of an episode forked; by policy.
        continuations: K by policy.
        calibrate: Platt scaling of the success model, which a model that learned nothing does not admit.
    """

    worlds: tuple[int, ...] = (101, 102, 103, 104)
    language_world: int = 201
    test_world: int = 301
    questions: int = 1200
    language_questions: int = 300
    test_questions: int = 600
    episodes: int = 3
    policy_steps: int = 500
    model_steps: int = 1000
    pairs: tuple[int, int] = (100, 40)
    played: tuple[int, int] = (30, 15)
    continuations: tuple[int, int] = (32, 24)
    calibrate: bool = True


QUICK: Final = Sizes((101,), 201, 301, 60, 20, 60, 2, 12, 12, (8, 6), (3, 2), (4, 3), calibrate=False)
LINEAR: Final = ("bag", "pairs")
POLICIES: Final = ("scripted", "language model")


def study(sizes: Sizes, folder: Path) -> dict[str, Any]:
    """All parts in order; finished ones are read from ``folder``. Returns the results as JSON values."""
    parts = Parts(folder, asdict(sizes))
    logs = [
        parts.log(f"train-{world}", partial(_played, world, sizes.questions, sizes, NoisyExpert(NOISE)))
        for world in sizes.worlds
    ]
    policy = _policy(sizes, parts)
    play = partial(_played, sizes.language_world, sizes.language_questions, sizes, policy)
    logs.append(parts.log("train-language", play))
    groups = [group for log in logs for group in read_groups(log)]
    evaluation = parts.json("model", lambda: _model(groups, sizes, folder))
    agents: tuple[Agent, Agent] = (NoisyExpert(NOISE), policy)
    tested: dict[str, Any] = {}
    rivals = fit_rivals(groups)
    for number, (name, agent) in enumerate(zip(POLICIES, agents, strict=True)):
        for kind, counts in (("pairs", sizes.pairs), ("played", sizes.played)):
            fork = partial(_forked, sizes, agent, counts[number], number, kind == "played")
            forked = parts.json(f"{kind}-{number}", fork)
            turns = [ForkedTurn.from_json(one) for one in forked["turns"]]
            if not turns:
                raise DataError(f"{name}: no state of its {kind} can be forked; use more test questions")
            scores = rival_scores(rivals, turns)
            scores["model"], prior = model_scores(folder / "success" / "model", turns)
            values = np.array([np.mean(turn.before) for turn in turns])
            found = pearson(prior, values)
            tested[f"{name}, {kind}"] = verdict(turns, scores, LINEAR) | {
                "value_correlation": found if np.isfinite(found) else None, "success": forked["success"],
            }  # fmt: skip
    return {
        "sizes": asdict(sizes),
        "train": {"episodes": sum(map(len, groups)), "success": float(np.mean([m.success for g in groups for m in g.trajectories]))},
        "model": evaluation, "linear": {kind: {"ridge": one.ridge, "loss": one.loss, "auc": one.auc} for kind, one in rivals.items()},
        "best_linear": max(LINEAR, key=lambda kind: rivals[kind].auc),
        "tested": tested, "cpu_seconds": parts.seconds(),
    }  # fmt: skip


def _played(world: int, questions: int, sizes: Sizes, agent: Agent) -> list[Group]:
    return rollouts(world, questions, chains(world, questions), agent, sizes.episodes)


def _policy(sizes: Sizes, parts: Parts) -> Agent:
    """The acting language model, trained or read from its folder."""
    from evidence.pica.fair.language_policy import Watched, imitate, open_policy

    folder, world = parts.folder / "policy", sizes.language_world + 1

    def train() -> dict[str, Any]:
        tasks, watched = chains(world, sizes.questions), Watched(NoisyExpert(NOISE))
        rollouts(world, sizes.questions, tasks, watched, 1)
        data = watched.choices
        policy = imitate(data, sizes.policy_steps, 0)
        policy.save(folder)
        return {"demonstrations": len(data), "parameters": sum(p.numel() for p in policy.model.parameters())}

    parts.json("policy-done", train)
    return open_policy(folder)


def _model(groups: Sequence[Group], sizes: Sizes, folder: Path) -> dict[str, Any]:
    labels = label_log(groups)
    write_jsonl(folder / "condensed.jsonl", [with_mentions(group) for group in groups])
    write_labels(folder / "condensed.labels.jsonl", labels.labels)
    found = train_success_model(
        folder / "condensed.jsonl",
        folder / "condensed.labels.jsonl",
        folder / "success",
        sizes.model_steps,
        calibrate=sizes.calibrate,
    )
    marks = [mark for one in labels.labels for mark in one.turn_labels[:-1] if mark]
    return {**found, "labelled_turns": len(marks), "pivots": sum(mark == "+" for mark in marks)}


def _forked(sizes: Sizes, agent: Agent, count: int, number: int, played: bool) -> dict[str, Any]:
    world, size = sizes.test_world, sizes.test_questions
    tasks = chains(world, size)
    chosen = tasks[-count:] if played else tasks[: 3 * count]  # not every episode has a pair
    groups = rollouts(world, size, chosen, agent, 1)
    found = forked_turns(world, size, groups, agent, sizes.continuations[number], played=played)
    turns: list[dict[str, Any]] = []
    for turn in found:
        turns.append(turn.to_json())
        if not played and len(turns) == 2 * count:
            break
    return {"turns": turns, "success": float(np.mean([m.success for g in groups for m in g.trajectories]))}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_output(parser, "--out", Output(kind="folder", owned=named(*FILES), cleared=True, first=SIZES), metavar="DIR", required=True,
               help="write parts and results.json here")  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="continue an interrupted study")
    parser.add_argument(
        "--quick", action="store_true", help="toy sizes, to test the code path; the result is no evidence"
    )


def run(args: argparse.Namespace) -> int:
    """Run the study; returns 0."""
    require_torch()
    import torch

    from creditflow.train.bench.report.provenance import provenance

    torch.set_num_threads(1)
    folder = Path(args.out)
    found = study(QUICK if args.quick else Sizes(), folder)
    Parts.write(folder / "results.json", provenance([], 0) | {"command": args.command_line} | found)
    _print(found)
    return 0


def _print(found: dict[str, Any]) -> None:
    for name, table in found["tested"].items():
        print(f"\n{name}: {table['turns']} turns of {table['questions']} questions")
        for measure, rows in table.items():
            if isinstance(rows, dict) and "model" in rows:
                print(f"  {measure}: " + "; ".join(f"{n} {v[0]} [{v[1]}, {v[2]}]" for n, v in rows.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("evidence.pica.fair.study", arguments, script="tests/evidence/pica/fair/study.py")


if __name__ == "__main__":
    raise SystemExit(main())
