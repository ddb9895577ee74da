"""Turn-LOO on examples worked out by hand."""

from __future__ import annotations

from typing import Any

from helpers.episodes.builders import group, walk
from helpers.episodes.worked import near

from creditflow import credit
from creditflow.wrappers.records.group import Group

# rewards of turns: returns to go 6, 5, 3 and 2, 1 and 0
PAID = group(
    walk("s a b c", "failed", rewards=[1.0, 2.0, 3.0]),
    walk("s a b", "failed", rewards=[1.0, 1.0], name="two"),
    walk("s a", "failed", rewards=[0.0], name="one"),
)


def flat(played: Group, **options: Any) -> list[float]:
    found: list[float] = credit.make("turn_loo", **options).assign(played).flat_advantages.tolist()
    return found


def test_turn_loo_compares_with_the_others_that_have_the_turn_and_keeps_a_return_without_others() -> None:
    # turn 0: 6 − (2 + 0)/2, 2 − (6 + 0)/2, 0 − (6 + 2)/2; turn 1: 5 − 1, 1 − 5; turn 2: 3
    near(flat(PAID), [5.0, 4.0, 3.0, -1.0, -4.0, -4.0])
