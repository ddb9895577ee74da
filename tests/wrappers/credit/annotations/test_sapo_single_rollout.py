"""SAPO with single rollouts: the worked example, and the batch as its only comparison."""

from __future__ import annotations

import numpy as np
from helpers.episodes.builders import annotated, group, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit.random_group import random_group

WON = annotated(walk("s a b g"), {"value.critic": [0.5, 0.4, 0.8]})
CUT = annotated(walk("s c d", "env_limit"), {"value.critic": [0.5, 0.3]})
SCHEME = credit.make("sapo_single_rollout", discount=0.99)


def test_the_worked_example() -> None:
    # γ .99, λ 1: returns .9801, .99, 1 | 0, 0 minus values: .4801, .59, .2 | −.5, −.3, with mean .09402, and sample deviation
    # √(.91440 / 4) = .47812 over the five turns
    whitened = (np.array([0.4801, 0.59, 0.2, -0.5, -0.3]) - 0.09402) / 0.47812
    scored = SCHEME.assign(group(WON, CUT))
    np.testing.assert_allclose(scored.flat_advantages, whitened, atol=2e-4)
    assert scored.value_targets is not None
    np.testing.assert_allclose(np.concatenate(scored.value_targets.targets), [0.9801, 0.99, 1, 0, 0], atol=1e-9)


def test_groups_of_one_are_compared_with_each_other() -> None:
    alone = SCHEME.assign_batch([group(WON), group(CUT)])
    together = SCHEME.assign(group(WON, CUT)).flat_advantages
    np.testing.assert_allclose(np.concatenate([c.flat_advantages for c in alone]), together)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_it_is_steppo_whitened_over_turns(seed: int) -> None:
    played = random_group(np.random.default_rng(seed), values=("value.critic",), dense=True)
    steppo = credit.make("steppo", discount=0.99, whitening=True).assign(played)
    np.testing.assert_array_equal(SCHEME.assign(played).flat_advantages, steppo.flat_advantages)
