"""``sapo``: the step part keeps the sign of the outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from helpers.episodes.entity_groups import FILM, built, entity_groups, score, search, searches
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.trajectory import StopReason


@given(entity_groups, st.floats(0.0, 1.0))
def test_up_to_weight_1_the_step_part_keeps_the_sign_of_the_outcome(drawn: Any, weight: float) -> None:
    scored = score("sapo", built(drawn), step_weight=weight)
    for outcome, advantages in zip(scored.outcome_advantages, scored.advantages, strict=True):
        assert (advantages * np.sign(outcome) >= -1e-12).all()


@given(entity_groups, st.sampled_from(["success", "failed"]))
def test_equal_outcomes_give_zero_credit(drawn: Any, end: StopReason) -> None:
    assert (score("sapo", built([(rows, end) for rows, _ in drawn])).flat_advantages == 0.0).all()


def test_the_outcome_needs_a_valid_format_at_every_turn_where_that_is_asked() -> None:
    right, wrong = search(("Inception", "-"), end="success", name="right"), search(("Inception", "-"), name="wrong")
    malformed = replace(
        right, trajectory_id="malformed", turns=tuple(replace(turn, parsed=False) for turn in right.turns)
    )
    group = searches(right, malformed, wrong, task=FILM)
    _, lenient, failed = credit.make("sapo").assign(group).outcome_advantages
    assert lenient > failed
    _, strict, failed = credit.make("sapo", format_errors="any_turn").assign(group).outcome_advantages
    assert strict == failed < 0.0
