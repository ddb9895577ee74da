"""The tidy table: what is read from each stored shape, its means and differences, and the correlations over methods."""

from __future__ import annotations

import math

import numpy as np
import pytest

from creditflow.train.bench.report.tidy import correlation_estimate, mean_correlation, results_of, study_results
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import spearman, t_quantile


def cell(kind: str, a: list[float], b: list[float]) -> dict[str, object]:
    names = [f"task {i}" for i in range(len(a))]
    curves = {name: {"area_by_task": areas, "final": 0.0, "points": []} for name, areas in (("a", a), ("b", b))}
    offline = {name: {"gain": 0.0} for name in curves}
    return {"kind": kind, "success": 0.5, "size": 8, "task_names": names, "offline": offline, "curves": curves}


@pytest.mark.parametrize(
    ("degrees_of_freedom", "expected"), [(1, 12.7062), (2, 4.3027), (5, 2.5706), (30, 2.0423), (1000, 1.9623)]
)
def test_quantiles_are_those_of_published_tables(degrees_of_freedom, expected):
    assert t_quantile(degrees_of_freedom) == pytest.approx(expected, abs=1e-4)


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


def study(gain: np.ndarray, area: np.ndarray) -> Study:
    """A study from results by seed (rows) and method (columns)."""

    def by_method(values: np.ndarray) -> dict[str, list[list[float]]]:
        return {f"m{i}": values[:, i, None].tolist() for i in range(values.shape[1])}

    endpoints = {"area": by_method(area), "gain": by_method(gain)}
    return Study("shared policy", "pits", "distinct", 16, 8, "", endpoints)


def noisy(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    quality = np.linspace(0.0, 1.0, 8)
    return quality + rng.normal(0.0, 0.5, (5, 8)), quality + rng.normal(0.0, 0.5, (5, 8))


def test_the_interval_is_the_jackknife_over_seeds_of_the_mean_over_studies() -> None:
    parts = [noisy(0), noisy(1)]
    without = np.array(
        [
            np.mean([spearman(*(np.delete(values, seed, axis=0).mean(axis=0) for values in part)) for part in parts])
            for seed in range(5)
        ]
    )
    pseudo = 5 * 0.5 - 4 * without
    half = t_quantile(4.0) * float(np.std(pseudo, ddof=1)) / math.sqrt(5)
    found = correlation_estimate(study_results([study(*part) for part in parts]), "gain", 0.5)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, max(0.5 - half, -1.0), min(0.5 + half, 1.0)))


def test_all_seeds_together_give_the_stored_correlation() -> None:
    gain, area = noisy(2)
    assert mean_correlation(study_results([study(gain, area)]), "gain") == pytest.approx(
        spearman(gain.mean(axis=0), area.mean(axis=0))
    )
    assert math.isnan(mean_correlation(study_results([study(gain, area)]), "cosine"))


def test_there_is_no_interval_without_a_second_seed_and_no_correlation_where_it_is_undefined() -> None:
    one = [study(*(values[:1] for values in noisy(3)))]
    alone = correlation_estimate(study_results(one), "gain", 0.9)
    assert alone is not None and alone.mean == 0.9 and math.isnan(alone.low)
    assert alone.text(2) == "0.90"
    assert correlation_estimate(study_results(one), "gain", None) is None


def test_an_interval_is_cut_at_one() -> None:
    found = correlation_estimate(study_results([study(*noisy(4))]), "gain", 0.99)
    assert found is not None and found.high <= 1.0


def test_every_stored_shape_is_read_into_rows_of_setting_method_seed_task_endpoint_and_value() -> None:
    exact = results_of({"cells": [cell("x", [0.5, 0.25], [0.0, 1.0])]})
    assert [tuple(row) for row in exact.rows()] == [
        ("x J0 0.5 G 8", "a", 0, "task 0", "area", 0.5),
        ("x J0 0.5 G 8", "a", 0, "task 1", "area", 0.25),
        ("x J0 0.5 G 8", "b", 0, "task 0", "area", 0.0),
        ("x J0 0.5 G 8", "b", 0, "task 1", "area", 1.0),
    ]
    areas = {"a": [[0.1], [0.2]]}  # two seeds, whose tasks are averaged
    shared = study_results([Study("shared policy", "pits", "fresh", 16, 8, "Adam", {"area": areas})])
    assert [tuple(row) for row in shared.rows()] == [
        ("pits, fresh keys, 16 × 8, Adam", "a", 0, "0", "area", 0.1),
        ("pits, fresh keys, 16 × 8, Adam", "a", 1, "0", "area", 0.2),
    ]
    played = results_of({"name": "webshop", "rows": {"a": {"area_by_seed": [[0.25, 0.75]], "curve": [0.0, 1.0]}}})
    assert [row.value for row in played.rows()] == [0.25, 0.75]
    assert played.mean("area", "a").mean == 0.5


def test_a_setting_that_lacks_a_method_leaves_it_out_of_the_methods() -> None:
    areas = {"a": [[0.1], [0.2]], "b": [[0.0], [0.1]]}
    full = Study("shared policy", "pits", "distinct", 16, 8, "", {"area": areas})
    less = Study("shared policy", "slip", "distinct", 16, 8, "", {"area": {"a": areas["a"]}})
    assert study_results([full, less]).methods("area") == ["a"]
    assert study_results([full, less]).where(lambda setting: setting.kind == "pits").methods("area") == ["a", "b"]
