"""Numbers of examples small enough to work out by hand.

Three samples {x, y, y} recur: mean y + (x−y)/3, deviations 2/3, −1/3, −1/3 of (x−y), sum of squares 2/3, sample
variance 1/3, so the normalised values are 2/√3, −1/√3, −1/√3 whatever x > y. Two samples give ±1/√2.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.wrappers.records.group import Group

ONE_OF_THREE = [2 / sqrt(3), -1 / sqrt(3), -1 / sqrt(3)]
HALF = 1 / sqrt(2)

RACE = group(walk("s a b g"), walk("s g"), walk("s x", "failed"))
# rewards of turns: returns to go 6, 5, 3 and 2, 1 and 0
PAID = group(
    walk("s a b c", "failed", rewards=[1.0, 2.0, 3.0]),
    walk("s a b", "failed", rewards=[1.0, 1.0], name="two"),
    walk("s a", "failed", rewards=[0.0], name="one"),
)


def flat(name: str, played: Group, **options: Any) -> list[float]:
    """The advantages of all turns of a group."""
    found: list[float] = credit.make(name, **options).assign(played).flat_advantages.tolist()
    return found


def near(got, expected):
    flat = [x for row in got for x in np.atleast_1d(row)]
    expected_flat = [x for row in expected for x in np.atleast_1d(row)]
    assert [len(np.atleast_1d(row)) for row in got] == [len(np.atleast_1d(row)) for row in expected]
    np.testing.assert_allclose(flat, expected_flat, rtol=1e-12, atol=1e-12)
