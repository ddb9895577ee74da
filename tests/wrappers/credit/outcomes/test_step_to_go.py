"""Step-to-go on examples worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
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
    found: list[float] = credit.make("step_to_go", **options).assign(played).flat_advantages.tolist()
    return found


def test_step_to_go_centres_returns_over_the_group_or_over_a_turns_number() -> None:
    # returns to go 6, 5, 3 | 2, 1 | 0, mean 17/6
    near(flat(PAID), [6 - 17 / 6, 5 - 17 / 6, 3 - 17 / 6, 2 - 17 / 6, 1 - 17 / 6, -17 / 6])
    # turn 0: mean 8/3; turn 1: mean 3; turn 2 is of one rollout alone
    near(flat(PAID, centre_over="turn"), [6 - 8 / 3, 2.0, 0.0, 2 - 8 / 3, -2.0, -8 / 3])
    # γ .5: 1 + 1 + .75, 2 + 1.5, 3 | 1.5, 1 | 0
    returns = np.array([2.75, 3.5, 3.0, 1.5, 1.0, 0.0])
    near(flat(PAID, discount=0.5), returns - returns.mean())
