"""Confidence intervals: coverage, width, and paired differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from creditflow.train.bench.report.statistics import TaskBootstrap, bootstrap, paired


def test_the_bootstrap_interval_covers_the_mean_and_shrinks_with_data():
    rng = np.random.default_rng(0)
    few, many = bootstrap(rng.random((3, 10))), bootstrap(rng.random((3, 1000)))
    assert few.low < few.mean < few.high
    assert many.high - many.low < few.high - few.low
    assert bootstrap(np.full((2, 5), 0.25)).low == pytest.approx(0.25)


def test_the_bootstrap_interval_has_about_its_nominal_coverage():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        estimate = bootstrap(rng.normal(1.0, 1.0, (1, 40)), n_resamples=400)
        hits += estimate.low <= 1.0 <= estimate.high
    assert 0.88 <= hits / 200 <= 0.99


def cells(tasks, kinds=("a", "b", "c", "d"), sizes=3):
    return [{"kind": k, "task_names": [f"{k}{i}" for i in range(tasks)]} for k in kinds for _ in range(sizes)]


@pytest.mark.parametrize("tasks", [4, 8])
def test_intervals_over_tasks_have_their_coverage_when_cells_share_tasks(tasks):
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(200):
        shared = rng.normal(0.0, 1.0, (4, 1, tasks)) + 0.3 * rng.normal(0.0, 1.0, (4, 3, tasks))
        estimate = TaskBootstrap(cells(tasks), n_resamples=400)(shared.reshape(12, tasks).tolist())
        hits += estimate.low <= 0.0 <= estimate.high
    assert 0.86 <= hits / 200 <= 0.99


def test_differences_between_kinds_do_not_widen_the_interval():
    values = [[float(kind)] * 5 for kind in range(4) for _ in range(3)]
    estimate = TaskBootstrap(cells(5))(values)
    assert estimate.mean == pytest.approx(1.5)
    assert estimate.low == pytest.approx(1.5) == estimate.high


def test_one_task_per_kind_has_no_interval():
    estimate = TaskBootstrap(cells(1))([[0.5]] * 12)
    assert estimate.mean == 0.5
    assert math.isnan(estimate.low)
    assert str(estimate) == "0.500"


def test_paired_differences():
    mean, error = paired([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])
    assert mean == pytest.approx(4 / 3)
    assert error == pytest.approx(np.std([0, 1, 3], ddof=1) / np.sqrt(3))
    assert paired([1.0], [0.0])[1] == np.inf
