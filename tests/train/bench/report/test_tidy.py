"""The tidy table: what is read from each stored shape, its means and differences, and their intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from creditflow.train.bench.report.tidy import Estimate, Results, cells_mean, results_of
from creditflow.train.statistics import t_quantile


def cell(kind: str, a: list[float], b: list[float]) -> dict[str, object]:
    names = [f"task {i}" for i in range(len(a))]
    curves = {name: {"area_by_task": areas, "final": 0.0, "points": []} for name, areas in (("a", a), ("b", b))}
    offline = {name: {"gain_by_task": [0.0] * len(a)} for name in curves}
    return {"kind": kind, "success": 0.5, "size": 8, "task_names": names, "offline": offline, "curves": curves}


def setting(areas: dict[str, Any], kind: str = "pits", keys: str = "distinct", condition: str = "") -> dict[str, Any]:
    described = {"regime": "shared policy", "kind": kind, "keys": keys, "batch": 16, "size": 8, "condition": condition}
    return described | {"endpoints": {"area": areas}}


def shared_results(*studies: dict[str, Any]) -> Results:
    return results_of({"studies": list(studies), "curves": [{}] * len(studies)})


def test_tasks_are_the_samples_whatever_the_number_of_cells():
    found = [
        results_of({"cells": [cell("x", [1.0, 2.0, 6.0], [0.0, 0.0, 0.0])] * copies}).estimate("area", "a", "b")
        for copies in (1, 5)
    ]
    half = 4.3027 * np.sqrt(7.0 / 3.0)
    for one in found:
        assert (one.mean, one.low, one.high) == pytest.approx((3.0, 3.0 - half, 3.0 + half), abs=1e-3)


def test_kinds_are_strata_of_equal_weight():
    cells = [cell("x", [1.0, 3.0], [0.0, 0.0]), cell("y", [5.0, 5.0, 5.0], [0.0, 0.0, 0.0])]
    found = results_of({"cells": cells}).estimate("area", "a", "b")
    half = t_quantile(1.0) * 0.5  # only x varies: 1 per task, halved by its weight
    assert (found.mean, found.high) == pytest.approx((3.5, 3.5 + half))


def test_every_stored_shape_is_read_into_values_by_setting_endpoint_method_seed_and_task() -> None:
    (exact,) = results_of({"cells": [cell("x", [0.5, 0.25], [0.0, 1.0])]}).settings
    assert (exact.title, exact.tasks) == ("x J0 0.5 G 8", ("task 0", "task 1"))
    assert {name: values.tolist() for name, values in exact.values["area"].items()} == {
        "a": [[0.5, 0.25]],
        "b": [[0.0, 1.0]],
    }
    (shared,) = shared_results(setting({"a": [[0.1], [0.2]]}, keys="fresh", condition="Adam")).settings
    assert (shared.title, shared.values["area"]["a"].tolist()) == ("pits, fresh keys, 16 × 8, Adam", [[0.1], [0.2]])
    played = results_of({"name": "webshop", "rows": {"a": {"area_by_seed": [[0.25, 0.75]], "curve": [0.0, 1.0]}}})
    assert played.mean("area", "a").mean == 0.5


def test_a_setting_that_lacks_a_method_leaves_it_out_of_the_methods() -> None:
    areas = {"a": [[0.1], [0.2]], "b": [[0.0], [0.1]]}
    full = setting(areas, "pits")
    less = setting({"a": areas["a"]}, "slip")
    assert shared_results(full, less).methods("area") == ["a"]
    assert shared_results(full, less).where(lambda setting: setting.kind == "pits").methods("area") == ["a", "b"]


def test_the_median_of_the_variance_has_no_interval_and_an_unknown_value_is_left_out():
    one = cell("x", [1.0, 2.0], [0.0, 0.0])
    one["offline"] = {"a": {"variance_by_task": [1.0, 3.0], "cos_mean_by_task": [0.5, None]}}
    results = results_of({"cells": [one, one, one | {"offline": {"a": {"variance_by_task": [9.0, 9.0]}}}]})
    variance, cosine = results.estimate("variance", "a"), results.estimate("cos_mean", "a")
    assert variance.mean == 2.0 and math.isnan(variance.low)
    assert cosine.mean == 0.5


@pytest.mark.parametrize("tasks", [4, 8])
def test_intervals_over_tasks_have_their_coverage_when_cells_share_tasks(tasks):
    rng = np.random.default_rng(2)
    kinds, studies, hits = [kind for kind in "abcd" for _ in range(3)], 1000, 0
    names = [[f"{kind}{i}" for i in range(tasks)] for kind in kinds]
    for _ in range(studies):
        shared = rng.normal(0.0, 1.0, (4, 1, tasks)) + 0.3 * rng.normal(0.0, 1.0, (4, 3, tasks))
        low, high = cells_mean(kinds, names, shared.reshape(12, tasks).tolist()).interval
        hits += low <= 0.0 <= high
    assert hits / studies == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / studies))


def test_every_cell_counts_once_however_many_tasks_it_has():
    found = cells_mean("aa", ["xyz", "x"], [[1.0, 2.0, 3.0], [8.0]])
    assert found.mean == 5.0
    # the second cell's only task deviates from its own mean by nothing
    assert found.standard_error == pytest.approx(math.sqrt(2 * (1.0 / 3 / 2) ** 2 * 3 / 2))
    assert cells_mean("aaab", ["xy"] * 4, [[1.0, 1.0]] * 3 + [[5.0, 5.0]]).mean == 2.0, "a kind counts by its cells"


def test_one_task_per_kind_has_no_interval():
    estimate = Estimate.of(cells_mean("ab", ["x", "x"], [[0.5]] * 2))
    assert estimate.mean == 0.5 and math.isnan(estimate.low)
    assert str(estimate) == "0.500"
