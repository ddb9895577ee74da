"""Cells of stored benchmark runs: what a log of the start of learning looks like, and how well each scheme learned.

The logs of a run are not stored; those of its start are sampled again from its settings. Of the suite of language models,
whose start is a trained network, experts with as much noise as its warm-up's success rate needs stand in for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from creditflow.envs.errors import DataError
from creditflow.train.bench.exact.cells import Cell, starts_of
from creditflow.train.bench.exact.mdp import FiniteMDP, tabulate
from creditflow.train.bench.exact.policies import noisy_expert, softmax
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.exact.values import success
from creditflow.train.bench.language_model.suite.families import bare_env, family_tasks, open_family
from creditflow.train.bench.language_model.suite.summary import endpoint
from creditflow.train.bench.learning.batch import Draw, sample_batches
from creditflow.train.bench.methods import is_control, scheme_entry
from creditflow.train.bench.presets import PRESETS, Preset
from creditflow.train.bench.shared.cells import SharedCell, start_of
from creditflow.train.bench.shared.cells import cells_of as shared_cells
from creditflow.train.bench.shared.tasks import kind_of_tasks
from creditflow.train.bench.stored_names import stored_names
from creditflow.train.bench.studies import Study
from creditflow.train.choice.cell import ChoiceCell
from creditflow.train.choice.features import LogFeatures, log_features, mean_features
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.records.group import Group

__all__ = ["cells_of_run"]

LOGS: Final = 4  # logs sampled for each cell
BISECTIONS: Final = 12
SHOWN_TASKS: Final = 24  # of a family of language models


def cells_of_run(document: Mapping[str, Any], *, suite: str) -> list[ChoiceCell]:
    """All cells of a run with learning curves.

    Args:
        document: results of ``creditflow bench``.
        suite: name of the run.

    Raises:
        DataError: the settings of the run are not those of its preset today.
    """
    provenance = document["provenance"]
    cells: list[ChoiceCell] = []
    for part in document["suites"]:
        name = f"{suite}: {part['name']}"
        if "cells" in part:
            cells += _of_tables(name, part, provenance["seed"])
        elif "studies" in part:
            cells += _of_shared(name, part, PRESETS[provenance["preset"]], provenance["seed"])
    if "language_models" in document:
        cells += _of_models(f"{suite}: language models", document)
    return cells


def _of_candidates(areas: Mapping[str, float], settings: Mapping[str, str]) -> dict[str, float]:
    """The areas of schemes that need nothing but the log; the default of grouptd under the name of its settings.

    Args:
        areas: by stored name.
        settings: how the methods of the run differed from the defaults of then.
    """
    found, present = {}, stored_names(areas, settings)
    for method, area in areas.items():
        if "(" in method or "[" in method or is_control(method):
            continue
        kind = lookup(scheme_entry(method).scheme)
        if not (kind.requires or kind.requires_tokens or kind.task_fields):
            found["grouptd_relative" if present[method] == "grouptd" else present[method]] = area
    return found


def _of_tables(name: str, part: Mapping[str, Any], seed: int) -> Iterator[ChoiceCell]:
    for row in part["cells"]:
        if not row["curves"]:
            continue
        cell = Cell(row["kind"], row["success"], row["size"])
        starts = starts_of(part["spec"], cell.kind, cell.success, seed, min(row["tasks"], SHOWN_TASKS))
        rng = np.random.default_rng([seed, cell.size, 7])
        logs = [
            log_features(_sampled(mdp, softmax(logits), cell.size, 1, rng), key=cell.key, batch=1)
            for mdp, logits in starts
            for _ in range(LOGS)
        ]
        areas = {m: float(np.mean(of["area_by_task"])) for m, of in row["curves"].items()}
        yield ChoiceCell(name, str(cell), mean_features(logs), _of_candidates(areas, part["settings"]))


def _sampled(mdp: FiniteMDP, table: Any, size: int, count: int, rng: np.random.Generator) -> list[Group]:
    return [simulate(mdp, table[None], size, rng, name=f"{i}")[0] for i in range(count)]


def _of_shared(name: str, part: Mapping[str, Any], preset: Preset, seed: int) -> Iterator[ChoiceCell]:
    cells = {_signature(cell): cell for cell in shared_cells(preset.shared) if cell.learn}
    for data in part["studies"]:
        study = Study.from_json(data)
        signature = (study.kind, study.keys, study.batch, study.size, study.condition)
        if signature not in cells:
            raise DataError(f"{name}: the preset has no cell {study.title!r} any more; run the benchmark again")
        cell, logs = cells[signature], list[LogFeatures]()
        for unit in range(LOGS):
            tasks, policy = start_of(cell, preset.shared, seed, unit)
            mdps, rng = [task.mdp for task in tasks], np.random.default_rng([seed, unit, 7])
            chosen = range(min(cell.batch, len(mdps)))
            [batch] = sample_batches(mdps, Draw.of(chosen, rng, f"{unit}"), [policy], cell.sampling)
            key: Literal["state", "text"] = cell.sampling.key
            logs.append(log_features(batch.groups, key=key, batch=cell.batch))
        areas = {m: float(x.mean()) for m, x in study.results("area").items()}
        yield ChoiceCell(name, study.title, mean_features(logs), _of_candidates(areas, part["settings"]))


def _signature(cell: SharedCell) -> tuple[str, str, int, int, str]:
    return kind_of_tasks(cell.kind), cell.keys, cell.batch, cell.size, cell.condition


def _of_models(name: str, document: Mapping[str, Any]) -> Iterator[ChoiceCell]:
    learning, settings = document["amounts"]["learning"], document["language_models"]["settings"]
    for family, found in document["language_models"]["families"].items():
        rate = float(np.mean([one["train"]["sampled"] for one in found["start"]]))
        mdps, rng = _family_tables(family), np.random.default_rng(7)
        noise = _noise_of(mdps, rate)
        groups = [
            group
            for mdp in mdps
            for group in _sampled(mdp, noisy_expert(mdp, noise), learning["size"], 1, rng)
        ]  # fmt: skip
        areas = {m: float(endpoint(curves, "held-out area").mean()) for m, curves in found["runs"].items()}
        yield ChoiceCell(name, family, log_features(groups, batch=learning["tasks"]), _of_candidates(areas, settings))


def _family_tables(name: str) -> list[FiniteMDP]:
    env, tables = bare_env(open_family(name)), []
    for task in family_tasks(name, "train", SHOWN_TASKS):
        env.reset(options={"task_id": task.task_id, "task": dict(task.content)})
        tables.append(tabulate(env))
    return tables


def _noise_of(mdps: Sequence[FiniteMDP], rate: float) -> float:
    """The noise with which an expert has this mean success rate; success falls with noise."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        mean = float(np.mean([float(success(mdp, noisy_expert(mdp, middle))) for mdp in mdps]))
        low, high = (middle, high) if mean > rate else (low, middle)
    return low
