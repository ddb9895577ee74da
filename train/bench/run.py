"""One benchmark run: suites × schemes → results.json, tables, plots, report.html."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import creditflow
from creditflow.agents.scripted import ExpertAgent
from creditflow.agents.tabular import TabularAgent
from creditflow.envs.atomic import atomic_writer
from creditflow.train.bench.learning import Curve, learn
from creditflow.train.bench.scoring import Score, log_statistics, score_log
from creditflow.train.bench.statistics import Estimate, bootstrap
from creditflow.train.bench.suites import PRESETS, Preset, Suite, open_suite
from creditflow.train.progress import progress
from creditflow.train.rollout import play_groups
from creditflow.wrappers import credit
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.groups import Group
from creditflow.wrappers.jsonl import write_jsonl

__all__ = ["BASELINE", "Row", "SuiteResult", "provenance", "run_bench"]

BASELINE = "grpo"
RESULTS_VERSION = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a suite's table.

    Attributes:
        score: the scheme on the recorded log.
        first, last: mean success before learning and after it.
        area: mean success over all iterations.
        gain: area minus the baseline's on the same tasks and seeds.
        curve: mean success per iteration.
        turns: environment turns per seed.
    """

    score: Score
    first: float
    last: Estimate
    area: Estimate
    gain: Estimate
    curve: list[float]
    turns: float


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """Everything about one suite."""

    name: str
    tasks: int
    log: Mapping[str, Any]
    expert_success: float
    rows: tuple[Row, ...]


def run_bench(
    suites: Sequence[str], schemes: Sequence[str], preset_name: str, out: Path, *, seed: int, workers: int
) -> list[SuiteResult]:
    """Run and write everything into ``out``; returns what the tables show."""
    preset = PRESETS[preset_name]
    made = {name: credit.make(name) for name in schemes}
    out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    results = []
    for spec in suites:
        suite = open_suite(spec, preset.tasks)
        results.append(_run_suite(suite, made, preset, out, seed=seed, workers=workers))
    facts = provenance(sys.argv[1:], seed) | {"preset": preset_name, "seconds": round(time.time() - began, 1)}
    document = {
        "results_version": RESULTS_VERSION,
        "provenance": facts,
        "preset": asdict(preset),
        "suites": [asdict(result) for result in results],
    }
    with atomic_writer(out / "results.json") as stream:
        json.dump(document, stream, indent=1, allow_nan=False)
    return results


def _run_suite(
    suite: Suite, schemes: Mapping[str, credit.Scheme], preset: Preset, out: Path, *, seed: int, workers: int
) -> SuiteResult:
    env = GroupEnv(suite.env, size=preset.group_size, policy="tabular", **suite.settings)
    agent = TabularAgent(guidance=suite.guidance)
    played = play_groups(env, agent, suite.tasks, seed=seed)
    groups = list(progress(played, f"{suite.name}: rollouts", len(suite.tasks)))
    slug = "".join(c if c.isalnum() else "-" for c in suite.name)
    write_jsonl(out / f"rollouts-{slug}.jsonl.gz", groups)
    expert = GroupEnv(suite.env, size=1, texts=False, **suite.settings)
    solved = [g.trajectories[0].success for g in play_groups(expert, ExpertAgent(), suite.tasks)]
    schemes = {name: scheme for name, scheme in schemes.items() if _defined(name, scheme, suite, groups)}
    scores = score_log(schemes, groups)
    jobs = [(name, scheme, suite, preset, seed + s) for name, scheme in schemes.items() for s in range(preset.seeds)]
    curves = list(progress(_learn_all(jobs, workers), f"{suite.name}: learning", len(jobs)))
    return SuiteResult(
        name=suite.name,
        tasks=len(suite.tasks),
        log=log_statistics(groups),
        expert_success=float(np.mean(solved)),
        rows=tuple(_row(score, curves) for score in scores),
    )


def _defined(name: str, scheme: credit.Scheme, suite: Suite, groups: Sequence[Group]) -> bool:
    """Whether a scheme can score these groups; says why not."""
    reason = next(filter(None, map(scheme.undefined_on, groups)), "")
    if reason:
        print(f"{suite.name}: {name} is left out: {reason}", file=sys.stderr)
    return not reason


def _learn_all(jobs: Sequence[tuple[Any, ...]], workers: int) -> Iterator[Curve]:
    if workers <= 1:
        yield from map(_learn, jobs)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_learn, jobs)


def _learn(job: tuple[Any, ...]) -> Curve:
    name, scheme, suite, preset, seed = job
    return learn(name, scheme, suite, preset, seed=seed)


def _row(score: Score, curves: Sequence[Curve]) -> Row:
    own = np.stack([curve.success for curve in curves if curve.scheme == score.scheme])
    base = [curve.success for curve in curves if curve.scheme == BASELINE]
    area = own.mean(axis=1)
    gain = area - np.stack(base).mean(axis=1) if base else np.zeros_like(area)
    return Row(
        score=score,
        first=float(own[:, 0].mean()),
        last=bootstrap(own[:, -1]),
        area=bootstrap(area),
        gain=bootstrap(gain),
        curve=[float(x) for x in own.mean(axis=(0, 2))],
        turns=float(np.mean([curve.turns for curve in curves if curve.scheme == score.scheme])),
    )


def provenance(arguments: Sequence[str], seed: int) -> dict[str, Any]:
    """Command, commit, versions and machine kind: what a number needs beside it."""
    commit = ""
    source = Path(__file__).resolve().parent
    try:
        commit = subprocess.run(  # noqa: S603 - a fixed command
            ["git", "-C", str(source), "rev-parse", "--short", "HEAD"],  # noqa: S607 - git from the person's own path
            capture_output=True, text=True, check=True, timeout=10,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        commit = "unknown"  # an installed wheel has no repository
    return {
        "command": "creditflow " + " ".join(arguments),
        "commit": commit,
        "creditflow": creditflow.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": os.cpu_count(),
        "seed": seed,
    }
