"""BEACON: the worked example by hand and by the released code, and what its segments compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk

from creditflow import credit
from creditflow.wrappers.credit import CreditError

FIRST = annotated(walk("s a b c end"), {"milestone": [0, 1, 0, 1]})
SECOND = annotated(walk("s d e end", "failed"), {"milestone": [1, 0, 0]})
PLAYED = group(FIRST, SECOND)


def beacon(**options: Any) -> credit.Scheme:
    return credit.make("beacon", **{"discount": 0.5, **options})


def test_a_turn_gets_the_discounted_reward_of_the_next_milestone() -> None:
    assert beacon().assign(PLAYED).flat_step_rewards.tolist() == [0.5, 1.0, 0.5, 1.0, 1.0, 0.0, 0.0]


def test_the_worked_example() -> None:
    scored = beacon().assign(PLAYED)
    assert scored.diagnostics["segment"].tolist() == [0, 0, 1, 1, 0, 1, 1]
    # segment 0: rewards .5, 1 | 1, mean 5/6; segment 1: .5, 1 | 0, 0, mean 3/8
    step = [-1 / 3, 1 / 6, 1 / 8, 5 / 8, 1 / 6, -3 / 8, -3 / 8]
    np.testing.assert_allclose(scored.flat_step_advantages, step)
    # outcomes 1, 0: mean 1/2, sample deviation √(1/2)
    np.testing.assert_allclose(scored.outcome_advantages, [0.5**0.5, -(0.5**0.5)])


def test_the_release_agrees_with_the_released_code() -> None:
    # migpo/core_migpo.py @ db9347f, mode mean_norm, γ .5, step weight 1, with rewards of 10 per success; here one tenth
    released = [0.095238, 0.595238, 0.553571, 1.053571, -0.404762, -0.946429, -0.946429]
    scored = beacon(semantics="release").assign(PLAYED)
    np.testing.assert_allclose(scored.flat_advantages, released, atol=1e-6)


def test_a_failure_after_a_milestone_leaves_the_turns_before_it_their_credit() -> None:
    # both attain the milestone at once; what follows it is in another segment
    won, lost = beacon().assign(PLAYED).step_advantages
    assert won[1] == lost[0] > 0.0


def test_without_the_annotation_the_error_names_it() -> None:
    with pytest.raises(CreditError, match="beacon needs the annotation 'milestone'"):
        beacon().assign(group(walk("s end")))
