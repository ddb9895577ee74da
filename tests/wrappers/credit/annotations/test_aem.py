"""AEM: the worked example, its limits, and the uncertainty that a log has without an annotation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.tokens import Tokens

WON = annotated(walk("s a b g"), {"entropy": [0.2, 2.2, 1.2]})
LOST = annotated(walk("s c", "failed"), {"entropy": [5.0]})


def aem(**options: Any) -> credit.Scheme:
    return credit.make("aem", **{"sharpness": math.log(2.0), **options})


def test_the_worked_example() -> None:
    # entropies scaled to 0, 1, 1/2 within the rollout; weights 2^−H̃ = 1, 1/2, √½ with mean (1.5 + √½) / 3
    weight = np.array([1.0, 0.5, 0.5**0.5])
    advantages = aem().assign(group(WON, LOST)).advantages
    np.testing.assert_allclose(advantages[0], 0.5**0.5 * weight / weight.mean())  # outcomes 1, 0 have z-scores ±√½
    np.testing.assert_allclose(advantages[1], -(0.5**0.5))  # one turn has nothing to be compared with


def test_over_the_group_all_turns_are_compared() -> None:
    scaled = (np.array([0.2, 2.2, 1.2, 5.0]) - 0.2) / 4.8
    weight = 2.0**-scaled
    factors = aem(over="group").assign(group(WON, LOST)).flat_step_rewards
    np.testing.assert_allclose(factors, weight / weight.mean())


def test_with_sharpness_zero_it_is_grpo() -> None:
    played = group(WON, LOST)
    np.testing.assert_array_equal(
        aem(sharpness=0.0).assign(played).flat_advantages, credit.make("grpo").assign(played).flat_advantages
    )


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), sharpness=st.floats(0.0, 5.0))
def test_the_mean_over_a_rollouts_turns_is_its_outcome_advantage(seed: int, sharpness: float) -> None:
    played = random_group(np.random.default_rng(seed), values=("entropy",))
    scored = aem(sharpness=sharpness).assign(played)
    for outcome, advantages in zip(scored.outcome_advantages, scored.advantages, strict=True):
        if len(advantages):
            assert advantages.mean() == pytest.approx(outcome, abs=1e-9)


def test_log_probabilities_of_the_log_can_stand_for_the_entropy() -> None:
    # two turns of one observed and two sampled tokens: minus the mean log-probability is .2 and 1.0
    tokens = Tokens(
        ids=np.zeros(6, np.int32),
        mask=np.array([False, True, True, False, True, True]),
        logprobs=np.array([0.0, -0.1, -0.3, 0.0, -0.5, -1.5], np.float32),
        turn_offsets=np.array([0, 3, 6], np.int32),
    )
    from_log = group(replace(walk("s a g"), tokens=tokens), replace(walk("s b c", "failed"), tokens=tokens))
    annotations = {"entropy": [0.2, 1.0]}
    from_annotation = group(annotated(walk("s a g"), annotations), annotated(walk("s b c", "failed"), annotations))
    np.testing.assert_allclose(
        aem(uncertainty="logprobs").assign(from_log).flat_advantages,
        aem().assign(from_annotation).flat_advantages,
        atol=1e-6,
    )
    with pytest.raises(CreditError, match="has no tokens"):
        aem(uncertainty="logprobs").assign(from_annotation)
