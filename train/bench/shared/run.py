"""A run of the suite: cells × layout seeds as jobs, and the suite's part of the results document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import DataError
from creditflow.train.bench.annotation_sources import one_hot
from creditflow.train.bench.jobs import Job, JobRunner
from creditflow.train.bench.learning.batch import Draw
from creditflow.train.bench.presets import SharedWork
from creditflow.train.bench.selection import MethodSelection, select_methods
from creditflow.train.bench.shared.cells import (
    SharedCell,
    assemble,
    cells_of,
    learned_names,
    run_unit,
    start_of,
    trained_tasks,
)

__all__ = ["run_shared"]

SELECTING_TASKS: Final = 16  # tasks on whose groups the schemes are selected


def run_shared(names: Sequence[str], work: SharedWork, seed: int, runner: JobRunner) -> dict[str, Any]:
    """Run the suite.

    Args:
        names: names of the requested schemes.
        work: sizes.
        seed: seed of tasks, rollouts and shuffling.
        runner: runs the jobs.

    Returns:
        The suite's part of the document; see ``assemble`` for its "studies" and "curves".

    Raises:
        DataError: no cell has an initial policy.
    """
    cells = cells_of(work)
    selection, facts = _selected(names, cells[0], work, seed)
    learned = learned_names(selection.schemes, selection.controls)
    jobs = {}
    for cell in cells:
        arguments = (cell, work, selection.names, learned, seed)
        jobs[cell] = [Job(f"shared/{cell}/{unit}", run_unit, (*arguments, unit)) for unit in range(work.units)]
    results = runner.run([job for of_cell in jobs.values() for job in of_cell], "shared")
    undefined = dict(selection.undefined)
    impossible = dict[str, str]()
    assembled = list[dict[str, Any]]()
    for cell, of_cell in jobs.items():
        of_units = [results[job.name] for job in of_cell]
        reason = next((of_unit["impossible"] for of_unit in of_units if "impossible" in of_unit), "")
        if reason:
            impossible[str(cell)] = reason
            continue
        assembled.append(assemble(cell, of_units))
        undefined |= assembled[-1]["undefined"]
    if not assembled:
        raise DataError(f"suite 'shared': {next(iter(impossible.values()))}")
    return facts | {
        **selection.defined(undefined),
        "undefined": undefined,
        "impossible": impossible,
        "studies": [document["study"] for document in assembled],
        "curves": [document["curves"] for document in assembled],
        "tasks": {"train": trained_tasks(cells[0], work), "held_out": work.held_out, "seeds": work.units},
        "updates": {"count": work.updates, "every": work.every, "kl": work.kl, "aggregation": cells[0].aggregation},
    }


def _selected(
    names: Sequence[str], cell: SharedCell, work: SharedWork, seed: int
) -> tuple[MethodSelection, dict[str, Any]]:
    """The methods, selected on groups of the first layout seed, and the fields that the documents of all suites have."""
    tasks, policy = start_of(cell, work, seed, 0)
    mdps, chosen = [task.mdp for task in tasks], range(min(SELECTING_TASKS, len(tasks)))
    rng = np.random.default_rng([seed, 3])
    groups, earlier = (
        cell.sampling.batches(mdps, Draw.of(chosen, rng, name), [policy])[0].groups for name in ("log", "earlier")
    )
    horizon, features = mdps[0].horizon, one_hot(mdps, [task.parts for task in tasks])
    selection = select_methods(names, groups, horizon=horizon, exact=True, earlier=earlier, features=features)
    return selection, {
        "name": "shared",
        "spec": "shared",
        "kinds": list(work.kinds),
        "horizon": horizon,
        "settings": selection.settings(),
        "log": None,
        "expert": None,
    }
