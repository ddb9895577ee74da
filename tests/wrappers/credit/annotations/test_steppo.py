"""StepPO: the worked example, and its differences from ``mt_ppo``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from helpers.episodes.builders import annotated, group, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens

PLAYED = group(
    annotated(walk("s a b g"), {"value.critic": [0.5, 0.4, 0.8]}),
    annotated(walk("s c d", "env_limit"), {"value.critic": [0.5, 0.3, 0.9]}),
)


def steppo(**options: Any) -> credit.Scheme:
    return credit.make("steppo", discount=0.99, **options)


def test_the_worked_example():
    scored = steppo().assign(PLAYED)
    np.testing.assert_allclose(scored.flat_advantages, [0.4801, 0.59, 0.2, -0.5, -0.3], atol=6e-5)
    assert scored.value_targets is not None
    np.testing.assert_allclose(np.concatenate(scored.value_targets.targets), [0.9801, 0.99, 1.0, 0.0, 0.0], atol=6e-5)
    assert scored.aggregation == "turn_mean"


def test_the_released_code_whitens_over_turns_and_takes_its_targets_before():
    scored = steppo(semantics="release").assign(PLAYED)
    np.testing.assert_allclose(scored.flat_advantages, [0.8075, 1.0374, 0.2217, -1.2424, -0.8241], atol=6e-5)
    plain = steppo().assign(PLAYED)
    for ours, theirs in ((scored, plain), (plain, scored)):
        assert ours.value_targets is not None
        assert theirs.value_targets is not None
        np.testing.assert_array_equal(
            np.concatenate(ours.value_targets.targets), np.concatenate(theirs.value_targets.targets)
        )


def test_a_truncated_episode_is_not_bootstrapped():
    cut = steppo().assign(PLAYED).advantages[1]
    assert cut[-1] == -0.3


def long_first_turn(played: Group) -> Group:
    """The same turns, the first one of each rollout with many tokens."""
    members = []
    for m in played.trajectories:
        sizes = [50, *[1] * (len(m.turns) - 1)]
        n = sum(sizes)
        tokens = Tokens(
            np.zeros(n, np.int32), np.ones(n, np.bool_), np.zeros(n, np.float32),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
        )  # fmt: skip
        members.append(replace(m, tokens=tokens))
    return Group(tuple(members))


def test_the_lengths_of_turns_do_not_matter_where_mt_ppo_whitens_by_tokens():
    short, long = (steppo(semantics="release").assign(g).flat_advantages for g in (PLAYED, long_first_turn(PLAYED)))
    np.testing.assert_array_equal(short, long)
    short, long = (credit.make("mt_ppo").assign(g).flat_advantages for g in (PLAYED, long_first_turn(PLAYED)))
    assert not np.allclose(short, long)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), whitening=st.booleans())
def test_with_one_token_per_turn_it_is_mt_ppo(seed, whitening):
    played = random_group(np.random.default_rng(seed), values=("value.critic",), dense=True)
    ours = steppo(whitening=whitening, gae_lambda=0.7).assign(played).flat_advantages
    theirs = credit.make("mt_ppo", discount=0.99, whitening=whitening, gae_lambda=0.7).assign(played).flat_advantages
    np.testing.assert_array_equal(ours, theirs)
