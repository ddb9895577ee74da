"""The tidy table: what is read from each stored shape, its means and differences, and their intervals."""

from __future__ import annotations

import math
from typing import Any

from creditflow.train.bench.report.tidy import Results, results_of


def setting(areas: dict[str, Any], kind: str = "pits", keys: str = "distinct", condition: str = "") -> dict[str, Any]:
    described = {"regime": "shared policy", "kind": kind, "keys": keys, "batch": 16, "size": 8, "condition": condition}
    return described | {"endpoints": {"area": areas}}


def shared_results(*studies: dict[str, Any]) -> Results:
    return results_of({"studies": list(studies), "curves": [{}] * len(studies)})


def test_every_stored_shape_is_read_into_values_by_setting_endpoint_method_seed_and_task() -> None:
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
    one = setting({}) | {"endpoints": {"variance": {"a": [[1.0], [2.0]]}, "cos_mean": {"a": [[0.5], [None]]}}}
    other = setting({}) | {"endpoints": {"variance": {"a": [[9.0], [2.0]]}}}
    results = shared_results(one, other)
    variance, cosine = results.estimate("variance", "a"), results.estimate("cos_mean", "a")
    assert variance.mean == 2.0 and math.isnan(variance.low)
    assert cosine.mean == 0.5


def test_one_seed_has_no_interval():
    estimate = shared_results(setting({"a": [[0.5]]})).estimate("area", "a")
    assert estimate.mean == 0.5 and math.isnan(estimate.low)
    assert str(estimate) == "0.500"
