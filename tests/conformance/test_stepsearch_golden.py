"""StepSearch's parts against values that the released code computed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from helpers.shared_data import shared_files

from creditflow.wrappers.credit.entities.stepsearch import (
    GoldenPassages,
    information_gains,
    redundancies,
    rounded_f1,
    search_key_score,
)


def cases(kind: str) -> list[Any]:
    (path,) = shared_files("conformance/search_credit/stepsearch.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    known = {"information_gain", "search_key_score", "f1_round4"}
    assert {case["kind"] for case in data["cases"]} <= known, "a kind of case is left out"
    return [
        pytest.param(case["input"], case["expected"], data["tolerance"], id=case["id"])
        for case in data["cases"]
        if case["kind"] == kind
    ]


@pytest.mark.parametrize(("given", "expected", "tolerance"), cases("information_gain"))
def test_information_gain_and_redundancy_are_the_released_ones(given: Any, expected: Any, tolerance: float) -> None:
    golden = GoldenPassages([passage["paragraph_text"] for passage in given["golden"]])
    gains = information_gains(given["informations"], golden)
    repeated = redundancies(given["informations"], repeats="anywhere")
    if not given["golden"]:  # the released code returns no steps at all; here they have zero reward
        assert expected == {"gain": [], "redundancy": []}
        assert not gains.any()
        return
    np.testing.assert_allclose(gains, expected["gain"], atol=tolerance)
    np.testing.assert_allclose(repeated, expected["redundancy"], atol=tolerance)


@pytest.mark.parametrize(("given", "expected", "tolerance"), cases("search_key_score"))
def test_the_search_key_score_is_the_released_one(given: Any, expected: float, tolerance: float) -> None:
    assert search_key_score(given["searches"], given["keys"], pairing="last") == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(("given", "expected", "tolerance"), cases("f1_round4"))
def test_answers_are_graded_by_the_released_f1(given: Any, expected: float, tolerance: float) -> None:
    assert rounded_f1(given["prediction"], given["golden"]) == pytest.approx(expected, abs=tolerance)
