"""Stateless on examples worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from helpers.episodes.builders import group, walk
from helpers.episodes.worked import RACE, flat, near


def test_stateless_discounts_the_outcome_by_the_turns_that_follow() -> None:
    # γ .5: .25, .5, 1 | 1 | 0, and their mean over turns is 2.75 / 5 = .55
    near(flat("stateless", RACE, discount=0.5), [-0.3, -0.05, 0.45, 0.45, -0.55])
    near(flat("stateless", RACE, discount=0.0), [-0.4, -0.4, 0.6, 0.6, -0.4])


def test_stateless_counts_a_graded_score_in_part_and_returns_only_on_request() -> None:
    graded = group(replace(walk("s x", "failed", reward=7.0), score=0.25), walk("s y", "failed", name="lost"))
    near(flat("stateless", graded), [0.125, -0.125])
    near(flat("stateless", graded, outcome="return"), [3.5, -3.5])
