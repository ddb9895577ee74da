"""``sapo``: the step part keeps the sign of the outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers.episodes.entity_groups import built, entity_groups, score
from hypothesis import given
from hypothesis import strategies as st

from creditflow.wrappers.trajectory import StopReason


@given(entity_groups, st.floats(0.0, 1.0))
def test_up_to_weight_1_the_step_part_keeps_the_sign_of_the_outcome(drawn: Any, weight: float) -> None:
    scored = score("sapo", built(drawn), step_weight=weight)
    for outcome, advantages in zip(scored.outcome_advantages, scored.advantages, strict=True):
        assert (advantages * np.sign(outcome) >= -1e-12).all()


@given(entity_groups, st.sampled_from(["success", "failed"]))
def test_equal_outcomes_give_zero_credit(drawn: Any, end: StopReason) -> None:
    assert (score("sapo", built([(rows, end) for rows, _ in drawn])).flat_advantages == 0.0).all()
