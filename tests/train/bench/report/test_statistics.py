"""Means over cells: tasks are the samples, kinds are strata, and the intervals have their nominal coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from creditflow.train.bench.report.statistics import CellMeans, Estimate


def cells(tasks, kinds=("a", "b", "c", "d"), sizes=3):
    return [{"kind": k, "task_names": [f"{k}{i}" for i in range(tasks)]} for k in kinds for _ in range(sizes)]


@pytest.mark.parametrize("tasks", [4, 8])
def test_intervals_over_tasks_have_their_coverage_when_cells_share_tasks(tasks):
    rng = np.random.default_rng(2)
    means, studies = CellMeans(cells(tasks)), 1000
    hits = 0
    for _ in range(studies):
        shared = rng.normal(0.0, 1.0, (4, 1, tasks)) + 0.3 * rng.normal(0.0, 1.0, (4, 3, tasks))
        low, high = means(shared.reshape(12, tasks).tolist()).interval
        hits += low <= 0.0 <= high
    assert hits / studies == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / studies))


def test_repeating_a_cell_does_not_narrow_the_interval():
    values = [[1.0, 2.0, 6.0]]
    once, often = CellMeans(cells(3, "a", 1))(values), CellMeans(cells(3, "a", 5))(values * 5)
    assert (once.mean, once.standard_error, once.degrees_of_freedom) == pytest.approx(
        (often.mean, often.standard_error, often.degrees_of_freedom)
    )
    assert once.standard_error == pytest.approx(math.sqrt(7.0 / 3.0))


def test_differences_between_kinds_do_not_widen_the_interval():
    values = [[float(kind)] * 5 for kind in range(4) for _ in range(3)]
    assert Estimate.of(CellMeans(cells(5))(values)) == Estimate(1.5, 1.5, 1.5)


def test_every_cell_counts_once_however_many_tasks_it_has():
    found = CellMeans(cells(3, "a", 2), [3, 1])([[1.0, 2.0, 3.0], [8.0]])
    assert found.mean == 5.0
    # the second cell's only task deviates from its own mean by nothing
    assert found.standard_error == pytest.approx(math.sqrt(2 * (1.0 / 3 / 2) ** 2 * 3 / 2))


def test_kinds_count_by_their_number_of_cells():
    both = [*cells(2, "a", 3), *cells(2, "b", 1)]
    assert CellMeans(both)([[1.0, 1.0]] * 3 + [[5.0, 5.0]]).mean == 2.0


def test_one_task_per_kind_has_no_interval():
    estimate = Estimate.of(CellMeans(cells(1))([[0.5]] * 12))
    assert estimate.mean == 0.5
    assert math.isnan(estimate.low)
    assert str(estimate) == "0.500"
