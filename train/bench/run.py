"""One benchmark run: suites × columns → one document, from which every table, plot and page is made.

A suite whose states fit tables is measured against exact values (M1 to M5) and learned exactly; any other suite is
learned through its environment. Either way all columns, controls included, see the same rollouts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.agents.scripted import ExpertAgent
from creditflow.agents.tabular import TabularAgent
from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.train.bench.columns import fed_columns, scheme_column, scheme_columns, settings_of
from creditflow.train.bench.exact.cells import assemble, cells_of, run_task
from creditflow.train.bench.feeds import feed_log
from creditflow.train.bench.jobs import Job, Workshop, fingerprint
from creditflow.train.bench.lineup import Lineup, line_up
from creditflow.train.bench.played.learning import learn, played_row
from creditflow.train.bench.played.scoring import log_statistics, score_cost, sight
from creditflow.train.bench.presets import PRESETS, ExactWork, PlayedWork, Preset
from creditflow.train.bench.report.predictions import judge_predictions, load_predictions
from creditflow.train.bench.report.provenance import code_digest, provenance
from creditflow.train.bench.report.sanity import sanity_rules
from creditflow.train.bench.report.summary import BASELINE, correlations
from creditflow.train.bench.suites import Suite, open_suite
from creditflow.train.progress import progress
from creditflow.train.rollout import play_groups
from creditflow.train.run.identity import require_same_folder, versions, write_run_file
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl

__all__ = ["RESULTS_VERSION", "read_results", "run_bench", "write_results"]

RESULTS_VERSION = 2
LOG_SIZE = 8  # rollouts in a group of the recorded log
WHOLE = {"provenance", "amounts", "suites", "predictions", "sanity"}
SUITE = {
    "name",
    "spec",
    "kinds",
    "why",
    "horizon",
    "oracle",
    "settings",
    "log",
    "expert",
    "cost",
    "schemes",
    "controls",
    "undefined",
}
PROTOCOL = ("grids", "sokoban")  # suites that the predictions speak of


def run_bench(
    specs: Sequence[str],
    schemes: Sequence[str],
    preset_name: str,
    out: Path,
    *,
    seed: int,
    workers: int,
    command: Sequence[str],
    resume: bool = False,
) -> dict[str, Any]:
    """Run; writes the recorded logs into ``out`` and keeps finished parts there until ``write_results``.

    Args:
        specs: of the suites.
        schemes: names; empty: all, in a full run with their variants and those that have to be fed.
        preset_name: amounts.
        out: folder.
        seed: of everything.
        workers: processes.
        command: arguments as the person typed them.
        resume: go on with what is in ``out``, if the same was asked for.

    Returns:
        The document: plain JSON.

    Raises:
        OtherRunError: ``resume``, and other settings or another state of the code left what is there.
    """
    preset, began = PRESETS[preset_name], time.time()
    names = fed_columns(schemes) or scheme_columns(preset.variants)
    opened = [open_suite(spec, preset, seed) for spec in specs]  # a wrong one is told before any work
    identity = {
        "versions": versions() | {"results": RESULTS_VERSION, "code": code_digest()},
        "preset": preset_name,
        "amounts": asdict(preset),
        "columns": list(names),
        "suites": {
            suite.spec: fingerprint([t.task_id for play in suite.plays for t in play.tasks]) for suite in opened
        },
        "seed": seed,
    }
    results = out / "results.json"
    if resume:
        require_same_folder(out, identity, begun=results.exists())
    workshop = Workshop(out / "unfinished", fingerprint(identity), workers)
    if resume and results.exists():
        workshop.close()
        return read_results(results)
    write_run_file(out, identity)
    suites = [_run_suite(suite, names, preset, out, seed, workshop) for suite in opened]
    judged = preset_name == "full" and not schemes
    document: dict[str, Any] = {
        "results_version": RESULTS_VERSION,
        "provenance": provenance(command, seed)
        | {"preset": preset_name, "workers": workers, "seconds": round(time.time() - began, 1)},
        "amounts": asdict(preset),
        "suites": suites,
        "predictions": predictions_of(suites) if judged else None,
    }
    document["sanity"] = [rule._asdict() for rule in sanity_rules(document)]
    write_results(document, results)
    workshop.close()
    return document


def predictions_of(suites: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The predictions with their verdicts on these suites."""
    cells = [cell for suite in suites if suite["spec"] in PROTOCOL for cell in suite["cells"]]
    return {"written": load_predictions()["written"], "judged": judge_predictions(cells)}


def write_results(document: Mapping[str, Any], path: Path) -> None:
    """Write the document as JSON."""
    with atomic_writer(path) as stream:
        json.dump(document, stream, separators=(",", ":"), allow_nan=False)


def read_results(path: Path) -> dict[str, Any]:
    """A document that was written before, packed or not.

    Raises:
        DataError: not the results of a benchmark, or of another version.
    """
    try:
        document = read_json(path)
    except DataError as error:
        raise DataError(f"{error}; {path} is not the results of a benchmark") from error
    version = document.get("results_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version != RESULTS_VERSION:
        raise DataError(f"{path}: expected benchmark results of version {RESULTS_VERSION}, got version {version!r}")
    lacking, suites = WHOLE - document.keys(), document.get("suites")
    for suite in suites if isinstance(suites, list) else [suites]:
        lacking |= SUITE - suite.keys() if isinstance(suite, dict) else SUITE
        lacking |= set() if isinstance(suite, dict) and {"cells", "rows"} & suite.keys() else {"cells"}
    if lacking:
        raise DataError(f"{path}: the results of a benchmark hold {', '.join(sorted(lacking))}, these do not")
    return document


def _run_suite(
    suite: Suite, names: Sequence[str], preset: Preset, out: Path, seed: int, workshop: Workshop
) -> dict[str, Any]:
    groups = _record(suite, seed)
    slug = "".join(c if c.isalnum() else "-" for c in suite.name)
    write_jsonl(out / f"rollouts-{slug}.jsonl.gz", groups)
    horizon = max(play.horizon for play in suite.plays)
    earlier = _record(suite, seed, iteration=1) if any(name.endswith("[fitted]") for name in names) else []
    lineup = line_up(names, groups, horizon=horizon, exact=bool(suite.kinds), earlier=earlier)
    facts = {
        "name": suite.name,
        "spec": suite.spec,
        "kinds": list(suite.kinds),
        "why": suite.why,
        "horizon": horizon,
        "oracle": all(play.oracle for play in suite.plays),
        "settings": settings_of([*lineup.schemes, *(n for n in lineup.controls if n.endswith("]"))]),
        "log": log_statistics(groups),
        "expert": _expert(suite),
        "cost": {
            name: score_cost(scheme_column(name).bind(horizon, "state"), feed_log(name, horizon, groups, earlier))
            for name in lineup.schemes
        },
    }
    if suite.kinds:
        return facts | _exact(suite, lineup, preset.exact(suite.name), seed, workshop)
    return facts | _played(suite, lineup, preset.played, (groups, earlier), seed, workshop)


def _record(suite: Suite, seed: int, iteration: int = 0) -> list[Group]:
    """The suite's log: one group a task, played by the first table policy; another iteration plays others."""
    groups = list[Group]()
    for play in suite.plays:
        env = GroupEnv(play.env, size=LOG_SIZE, oracle=not suite.kinds, policy="tabular", **play.settings)
        agent = TabularAgent(optimal_prob=play.optimal_prob)
        own = play_groups(env, agent, play.tasks, seed=seed, iteration=iteration)
        groups += progress(own, f"{suite.name}: log", len(play.tasks))
    return groups


def _expert(suite: Suite) -> float:
    solved = []
    for play in suite.plays:
        env = GroupEnv(play.env, size=1, texts=False, **play.settings)
        solved += [group.trajectories[0].success for group in play_groups(env, ExpertAgent(), play.tasks)]
    return float(np.mean(solved))


def _exact(suite: Suite, lineup: Lineup, work: ExactWork, seed: int, workshop: Workshop) -> dict[str, Any]:
    cells = cells_of(suite.kinds, work)
    jobs = {
        cell: [
            Job(f"{suite.spec}/{cell}/{n}", run_task, (suite.spec, cell, work, lineup.names, seed, n))
            for n in range(work.tasks)
        ]
        for cell in cells
    }
    # tasks of one start lie together: a worker finds the start once
    found = workshop.run([job for own in jobs.values() for job in own], f"{suite.name}: exact")
    made = [assemble(cell, [found[job.name] for job in own]) for cell, own in jobs.items()]
    made = [cell for cell in made if cell["tasks"]]
    if not made:
        raise DataError(f"suite {suite.spec!r}: no task can start at a success of {work.successes}")
    undefined = {name: reason for cell in made for name, reason in cell["undefined"].items()} | dict(lineup.undefined)
    return {
        **_columns(lineup, undefined),
        "undefined": undefined,
        "cells": made,
        "correlations": correlations(made),
    }


def _played(
    suite: Suite,
    lineup: Lineup,
    work: PlayedWork,
    log: tuple[Sequence[Group], Sequence[Group]],
    seed: int,
    workshop: Workshop,
) -> dict[str, Any]:
    (play,) = suite.plays
    jobs = {
        name: [
            Job(f"{suite.spec}/{name}/{s}", learn, (name, play, work, play.horizon, seed + s))
            for s in range(work.seeds)
        ]
        for name in lineup.names
    }
    found = workshop.run([job for own in jobs.values() for job in own], f"{suite.name}: learning")
    runs = {name: [found[job.name] for job in own] for name, own in jobs.items()}
    undefined = {name: run["undefined"] for name, own in runs.items() for run in own if "undefined" in run}
    runs = {name: own for name, own in runs.items() if name not in undefined}
    if not runs:
        raise DataError(f"suite {suite.spec!r}: no scheme can score it: {undefined}")
    base = runs.get(BASELINE) or next(iter(runs.values()))
    undefined |= dict(lineup.undefined) | {
        "oracle_adv": "exact advantages are unknown here: " + suite.why,
    }
    return {
        **_columns(lineup, undefined),
        "undefined": undefined,
        "tasks": len(play.tasks),
        "rows": {name: played_row(own, base)._asdict() for name, own in runs.items()},
        "sight": {name: sight(name, play.horizon, *log) for name in runs},
    }


def _columns(lineup: Lineup, undefined: Mapping[str, str]) -> dict[str, list[str]]:
    return {
        "schemes": [name for name in lineup.schemes if name not in undefined],
        "controls": [name for name in lineup.controls if name not in undefined],
    }
