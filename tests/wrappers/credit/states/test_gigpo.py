"""GiGPO on examples small enough to work out by hand; every expected number is derived beside it."""

from __future__ import annotations

from math import sqrt

from helpers.episodes.builders import group, walk
from helpers.episodes.worked import HALF, ONE_OF_THREE, near

from creditflow import credit

FORK = (walk("s a g"), walk("s b x", "failed"), walk("s a y", "failed"))


def test_gigpo_compares_discounted_returns_of_turns_at_the_same_state():
    # γ = 1/2: returns (1/2, 1), (0, 0), (0, 0); at s {1/2, 0, 0}; at a {1, 0}; b was visited once
    c = credit.make("gigpo", discount=0.5).assign(group(*FORK))
    near(c.step_rewards, [[1 / 2, 1], [0, 0], [0, 0]])
    near(c.outcome_advantages, ONE_OF_THREE)
    near(c.step_advantages, [[ONE_OF_THREE[0], HALF], [ONE_OF_THREE[1], 0], [ONE_OF_THREE[2], -HALF]])
    near(c.advantages, [[4 / sqrt(3), 2 / sqrt(3) + HALF], [-2 / sqrt(3), -1 / sqrt(3)],
                        [-2 / sqrt(3), -1 / sqrt(3) - HALF]])  # fmt: skip
