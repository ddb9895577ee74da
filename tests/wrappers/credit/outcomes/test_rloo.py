"""RLOO on examples small enough to work out by hand; every expected number is derived beside it."""

from __future__ import annotations

from helpers.episodes.builders import group, walk
from helpers.episodes.worked import near

from creditflow import credit


def test_rloo_is_the_return_less_the_mean_of_the_others():
    # returns 3, 1, 2: 3 − 3/2, 1 − 5/2, 2 − 2
    g = group(*[walk("s a", "failed", reward=r, name=str(r)) for r in (3.0, 1.0, 2.0)])
    near(credit.make("rloo").assign(g).outcome_advantages, [3 / 2, -3 / 2, 0.0])


def test_outcome_can_be_success_or_score_instead_of_the_return():
    g = group(walk("s g", reward=7.0), walk("s x", "failed", reward=9.0))
    for outcome in ("success", "score"):
        near(credit.make("rloo", outcome=outcome).assign(g).outcome_advantages, [1.0, -1.0])
    near(credit.make("rloo").assign(g).outcome_advantages, [-2.0, 2.0])
