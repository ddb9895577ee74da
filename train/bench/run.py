"""One benchmark run: suites × methods → one document, from which every table, plot and page is made.

In the suite ``shared``, whose states fit into tables, credit is measured against exact values and learning curves are
exact; in any other suite policies are trained through its environment. In both cases all methods, controls included, get the same
rollouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.agents.scripted import ExpertAgent
from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import DataError
from creditflow.train.bench.document import RunOptions, measure_once
from creditflow.train.bench.jobs import Job, JobRunner, fingerprint
from creditflow.train.bench.methods import default_schemes, with_annotation_sources
from creditflow.train.bench.played import learn, played_row
from creditflow.train.bench.presets import PRESETS, PlayedWork, Preset
from creditflow.train.bench.report.tidy import BASELINE
from creditflow.train.bench.selection import MethodSelection, select_methods
from creditflow.train.bench.shared.run import run_shared
from creditflow.train.bench.suites import Suite, SuiteEnv, open_suite
from creditflow.train.progress import progress
from creditflow.train.rollout import play_groups
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl

__all__ = ["run_bench"]

LOG_SIZE = 8  # rollouts per group of the recorded log


def run_bench(
    specs: Sequence[str], schemes: Sequence[str], preset_name: str, options: RunOptions, *, seed: int
) -> dict[str, Any]:
    """Run the benchmark and write its results and recorded logs into the output folder.

    Args:
        specs: specs of the suites.
        schemes: names of the schemes; if empty, all of them (in the preset ``full`` also those that read annotations).
        preset_name: name of the preset.
        options: how the run is executed.
        seed: seed of tasks, rollouts and shuffling.

    Returns:
        The document: plain JSON values.

    Raises:
        ConfigError: a suite or a scheme is unknown.
        DataError: a suite has no tasks, or no initial policy with the success rate of its cells.
        OtherRunError: the run to be resumed has other settings or was made by other code.
    """
    preset = PRESETS[preset_name]
    names = with_annotation_sources(schemes) or preset.schemes or default_schemes(preset.annotated)
    opened = [open_suite(spec, preset) for spec in specs]  # invalid suites are reported before any work

    def measure(runner: JobRunner) -> dict[str, Any]:
        suites = []
        for number, suite in enumerate(opened, 1):
            runner.part = f"suite {number} of {len(opened)}, " if len(opened) > 1 else ""
            suites += _run_suite(suite, names, preset, options.out, seed, runner)
        return {"suites": suites}

    task_ids = {suite.spec: [task.task_id for task in suite.env.tasks] if suite.env else [] for suite in opened}
    identity = {
        "preset": preset_name,
        "amounts": asdict(preset),
        "methods": list(names),
        "suites": {spec: fingerprint(ids) for spec, ids in task_ids.items()},
        "seed": seed,
    }
    return measure_once(measure, options, identity)


def _run_suite(
    suite: Suite, names: Sequence[str], preset: Preset, out: Path, seed: int, runner: JobRunner
) -> list[dict[str, Any]]:
    """Record the suite's log, select the methods, and measure them; one result for every optimiser."""
    if suite.env is None:
        return [run_shared(names, preset.shared, seed, runner)]
    groups = _log(suite.name, suite.env, seed)
    slug = "".join(c if c.isalnum() else "-" for c in suite.name)
    write_jsonl(out / f"rollouts-{slug}.jsonl.gz", groups)
    horizon = suite.env.horizon
    earlier = _log(suite.name, suite.env, seed, iteration=1) if any(name.endswith("[fitted]") for name in names) else []
    selection = select_methods(names, groups, horizon=horizon, exact=False, earlier=earlier)
    facts = {
        "name": suite.name,
        "spec": suite.spec,
        "horizon": horizon,
        "settings": selection.settings(),
        "log": _log_size(groups),
        "expert": _expert_success(suite.env),
    }
    return [
        facts | _played(suite, suite.env, selection, preset.played, rate, seed, runner)
        for rate in (0.0, *preset.played.rates)
    ]


def _log_size(groups: Sequence[Group]) -> dict[str, float]:
    """The numbers of groups, trajectories and turns of a log, and its success rate."""
    members = [member for group in groups for member in group.trajectories]
    return {
        "groups": len(groups),
        "trajectories": len(members),
        "turns": sum(len(member.turns) for member in members),
        "success": sum(member.success for member in members) / len(members),
    }


def _log(name: str, suite_env: SuiteEnv, seed: int, iteration: int = 0) -> list[Group]:
    """Record the log of a suite: one group per task with the initial policy; another iteration gives other rollouts."""
    env = GroupEnv(suite_env.env, size=LOG_SIZE, policy="tabular", **suite_env.settings)
    agent = TabularAgent(optimal_prob=suite_env.optimal_prob)
    recorded = play_groups(env, agent, suite_env.tasks, seed=seed, iteration=iteration)
    return list(progress(recorded, f"{name}: log", len(suite_env.tasks)))


def _expert_success(suite_env: SuiteEnv) -> float | None:
    """Success rate of the expert on the tasks that are played; None without an expert."""
    if not suite_env.expert:
        return None
    env = GroupEnv(suite_env.env, size=1, texts=False, **suite_env.settings)
    groups = play_groups(env, ExpertAgent(), suite_env.tasks)
    return float(np.mean([group.trajectories[0].success for group in groups]))


def _played(
    suite: Suite,
    suite_env: SuiteEnv,
    selection: MethodSelection,
    work: PlayedWork,
    rate: float,
    seed: int,
    runner: JobRunner,
) -> dict[str, Any]:
    """Results of a suite that is played through its environment; with a ``rate`` all methods learn with Adam."""
    title = f"{suite.name}, Adam {rate:g}" if rate else suite.name
    jobs = [
        Job(f"{suite.spec}/{rate:g}/{name}/{s}", learn, (name, suite_env, work, suite_env.horizon, seed + s, rate))
        for name in selection.names
        for s in range(work.seeds)
    ]
    results = list(runner.run(jobs, f"{title}: learning").values())  # in the order of the jobs
    runs = {}
    for number, name in enumerate(selection.names):
        runs[name] = results[number * work.seeds : (number + 1) * work.seeds]
    undefined = {name: run["undefined"] for name, seeds in runs.items() for run in seeds if "undefined" in run}
    runs = {name: seeds for name, seeds in runs.items() if name not in undefined}
    if not runs:
        raise DataError(f"suite {suite.spec!r}: no scheme can score it: {undefined}")
    base = runs.get(BASELINE) or next(iter(runs.values()))
    undefined |= dict(selection.undefined) | {"oracle_adv": "exact advantages are unknown here"}
    return {
        "name": title,
        **selection.defined(undefined),
        "undefined": undefined,
        "tasks": len(suite_env.tasks),
        "rows": {name: played_row(seeds, base)._asdict() for name, seeds in runs.items()},
    }
