"""Endpoints on curves made by hand, and what the stored curves begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence.language_models.endpoints import endpoint

from creditflow.train.bench.document import read_results

HERE = Path(__file__).parent


def point(*values: float, at: int = 0) -> dict[str, Any]:
    """A point with this success by task."""
    return {"iteration": at, "held_out": {"sampled": list(values), "greedy": [1.0] * len(values)}}


FAMILY = {
    "runs": {
        "grpo": [
            [point(0.0, 0.1), point(0.2, 0.1, at=10), point(0.4, 0.5, at=40)],
            [point(0.2, 0.3), point(0.2, 0.3, at=10), point(0.2, 0.3, at=40)],
        ]
    },
    "floors": [{"imitation": {"same": point(0.3, x)}, "best": point(0.1, x)} for x in (0.6, 0.7)],
}


def test_endpoints_by_seed_and_task() -> None:
    # the trapezoidal rule: a quarter of the iterations at the mean of the first two points, the rest at that of the last two
    area = [[0.25 * 0.1 + 0.75 * 0.3, 0.25 * 0.1 + 0.75 * 0.3], [0.2, 0.3]]
    np.testing.assert_allclose(endpoint(FAMILY, "grpo", "area"), area)
    np.testing.assert_allclose(endpoint(FAMILY, "grpo", "final"), [[0.4, 0.5], [0.2, 0.3]])


@pytest.mark.parametrize(("floor", "first"), [("more imitation", 0.3), ("best temperature", 0.1)])
def test_a_floor_has_one_value(floor: str, first: float) -> None:
    for when in ("area", "final"):
        np.testing.assert_allclose(endpoint(FAMILY, floor, when), [[first, 0.6], [first, 0.7]])


@pytest.mark.parametrize("name", ["lm", "second"])
def test_all_methods_of_a_seed_start_from_one_model(name: str) -> None:
    for family in read_results(HERE / f"{name}.json.gz")["language_models"]["families"].values():
        for seed in range(len(family["start"])):
            starts = {tuple(curves[seed][0]["held_out"]["sampled"]) for curves in family["runs"].values()}
            assert len(starts) == 1
