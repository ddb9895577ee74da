"""Endpoints, contrasts, predictions and sanity checks of the suite of language models, on curves made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from creditflow.train.bench.language_model.suite.summary import (
    ENDPOINTS,
    checked_predictions,
    endpoint,
    endpoint_values,
    family_contrasts,
    method_means,
    pooled_contrasts,
)
from creditflow.train.bench.report.sanity import language_model_checks

AT = (0, 10, 40)  # iterations of the points


def curve(*values: Sequence[float]) -> list[dict[str, Any]]:
    """A curve whose points have these values by task: sampled on held-out tasks; others differ from it by a constant."""
    return [
        {
            "iteration": at,
            "held_out": {"sampled": list(one), "greedy": [x + 0.1 for x in one]},
            "train": {"sampled": [x + 0.2 for x in one], "greedy": [x + 0.3 for x in one]},
        }
        for at, one in zip(AT, values, strict=True)
    ]


TWO_SEEDS = [curve([0.0, 0.1], [0.2, 0.1], [0.4, 0.5]), curve([0.2, 0.3], [0.2, 0.3], [0.2, 0.3])]


def test_endpoints_by_seed_and_task() -> None:
    # the trapezoidal rule: a quarter of the iterations at the mean of the first two points, the rest at that of the last two
    area = np.array([[0.25 * 0.1 + 0.75 * 0.3, 0.25 * 0.1 + 0.75 * 0.3], [0.2, 0.3]])
    final = np.array([[0.4, 0.5], [0.2, 0.3]])
    expected = {
        "held-out area": area,
        "held-out final": final,
        "held-out greedy": final + 0.1,
        "trained area": area + 0.2,
        "trained final": final + 0.2,
    }
    assert expected.keys() == ENDPOINTS.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(endpoint(TWO_SEEDS, name), values, err_msg=name)


def level(final: Sequence[Sequence[float]]) -> list[list[dict[str, Any]]]:
    """Curves that stay where they end, by seed and task."""
    return [curve(one, one, one) for one in final]


def family(runs: Mapping[str, Sequence[Sequence[float]]], **parts: Any) -> dict[str, Any]:
    return {"runs": {name: level(final) for name, final in runs.items()}, **parts}


GRPO = [[0.1, 0.3], [0.2, 0.2]]
BETTER = [[0.2, 0.5], [0.3, 0.3]]  # differences .1, .2, .1, .1


def test_methods_are_compared_with_the_baseline_on_the_same_tasks_and_seeds() -> None:
    one = family({"grpo": GRPO, "gigpo": BETTER, "rloo": GRPO})
    means = method_means(one, "held-out area")
    assert {name: round(mean.mean, 9) for name, mean in means.items()} == {"grpo": 0.2, "gigpo": 0.325, "rloo": 0.2}
    found = family_contrasts(one, "held-out final", "grpo")
    assert list(found) == ["gigpo", "rloo"]
    assert found["gigpo"].difference.mean == pytest.approx(0.125)
    assert found["rloo"].difference.mean == 0.0
    # the other way round
    assert family_contrasts(one, "held-out final", "gigpo")["grpo"].difference.mean == pytest.approx(-0.125)


def test_families_weigh_the_same_whatever_their_number_of_tasks() -> None:
    small = family({"grpo": [[0.1]] * 2, "gigpo": [[0.5]] * 2})
    large = family({"grpo": GRPO, "gigpo": GRPO})
    found = pooled_contrasts({"small": small, "large": large}, "held-out final", "grpo")
    assert found["gigpo"].difference.mean == pytest.approx(0.2)


def point(value: float) -> dict[str, Any]:
    return {
        "held_out": {"sampled": [value, value], "greedy": [value + 0.1] * 2},
        "train": {"sampled": [value + 0.2] * 2, "greedy": [value + 0.3] * 2},
    }


def test_floors_are_values_at_the_end() -> None:
    floors = [{"imitation": {"same": point(0.3), "clean": point(0.8)}, "best": point(x)} for x in (0.4, 0.5)]
    one = family({"grpo": GRPO}, start=[point(0.1), point(0.2)], floors=floors)
    for method, name, expected in (
        ("grpo", "held-out final", GRPO),
        ("start", "held-out area", [[0.1] * 2, [0.2] * 2]),
        ("more imitation", "held-out greedy", [[0.4] * 2] * 2),
        ("best temperature", "trained final", [[0.6] * 2, [0.7] * 2]),
    ):
        np.testing.assert_allclose(endpoint_values(one, method, name), expected, err_msg=method)


def test_predictions_are_hits_misses_open_or_not_run() -> None:
    floors = [{"imitation": {"same": point(0.3)}, "best": point(0.4)}] * 2

    def ran_with(runs: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Any]:
        return family(runs, start=[point(0.1)] * 2, floors=floors)

    [first, *_] = checked_predictions({})
    assert all(one["outcome"] == "not run" for one in checked_predictions({}))
    better, worse, names = first["better"], first["worse"], first["families"]
    constant = [[x + 0.1 for x in row] for row in GRPO]
    for values, outcome in ((constant, "hit"), (GRPO, "open"), ([[0.1, 0.8], [0.2, 0.1]], "open")):
        ran = {name: ran_with({better: values, worse: GRPO}) for name in names}
        assert checked_predictions(ran)[0]["outcome"] == outcome
    assert (
        checked_predictions({name: ran_with({better: GRPO, worse: constant}) for name in names})[0]["outcome"] == "miss"
    )
    both = {name: ran_with({better: constant, worse: GRPO}) for name in names}
    assert checked_predictions({names[0]: both[names[0]]})[0]["outcome"] == "not run"
    assert checked_predictions(both | {names[-1]: ran_with({worse: GRPO})})[0]["outcome"] == "not run"


EXACT, FLIPPED, SHUFFLED = "oracle_adv", "flipped(oracle_adv)", "shuffled(oracle_adv)"


def measured(**changed: float) -> dict[str, Any]:
    numbers = {"cosine": 0.95, "loss": -0.01, "worse": 0.2} | changed
    return {
        EXACT: {"cos_mean": numbers["cosine"], "cos_batch": 0.5, "sgd": [0.01, 0.0]},
        FLIPPED: {"cos_mean": -0.9, "cos_batch": -0.5, "sgd": [numbers["loss"], 9.0]},
        SHUFFLED: {"cos_mean": 0.1, "cos_batch": numbers["worse"], "sgd": [0.0, 0.0]},
    }


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, ""),
        ({"cosine": 0.7}, "has the direction of the gradient"),
        ({"loss": 0.001}, "loses success"),
        ({"worse": 0.6}, "worse one-batch cosine"),
    ],
)
def test_sanity_checks_fail_where_a_control_is_wrong(changed: dict[str, float], failing: str) -> None:
    part = {"families": {"pits": family({"grpo": GRPO}, start=[0, 0], one_step=[measured(**changed)] * 2)}}
    found = {statement: holds for _, statement, holds, _ in language_model_checks(part)}
    assert len(found) == 4
    assert [statement for statement, holds in found.items() if not holds] == [
        s for s in found if failing and failing in s
    ]


def test_methods_of_a_seed_that_start_from_two_policies_are_found() -> None:
    part = {"families": {"pits": family({"grpo": GRPO, "gigpo": [GRPO[0], BETTER[1]]}, start=[0, 0], one_step=[])}}
    [(suite, _, holds, observed)] = language_model_checks(part)
    assert (suite, holds, observed) == ("lm pits", False, "1 seeds differ")
