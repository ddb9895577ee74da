"""GAGPO: the worked example, what λ does, and its edge cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import DENSE, SPARSE, groups
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError

quick = settings(max_examples=40)
PATHS = group(
    walk("s x end", name="won"), walk("s x end", "failed", name="lost"), walk("s y end", "failed", name="away")
)


def gagpo(**options: Any) -> credit.Scheme:
    return credit.make("gagpo", **options)


def test_values_are_means_of_the_returns_of_all_visits():
    diagnostics = gagpo().assign(PATHS).diagnostics
    value = dict(zip(diagnostics["node_keys"], diagnostics["values"], strict=True))
    assert value["s"] == pytest.approx(0.3167, abs=5e-5)
    assert value["x"] == 0.5
    assert value["y"] == 0.0


def test_the_worked_example():
    scored = gagpo().assign(PATHS)
    np.testing.assert_allclose(scored.flat_step_rewards, [0.6096, 0.5, -0.2929, -0.5, -0.3167, 0.0], atol=5e-5)
    normalised = [1.4519, 1.1909, -0.6977, -1.1909, -0.7542, 0.0]
    np.testing.assert_allclose(scored.flat_advantages, normalised, atol=1e-4)
    assert scored.aggregation == "turn_mean"


def test_with_lambda_zero_the_losers_good_first_move_stays_positive():
    scored = gagpo(gae_lambda=0.0).assign(PATHS)
    np.testing.assert_allclose(scored.flat_step_rewards, [0.1583, 0.5, 0.1583, -0.5, -0.3167, 0.0], atol=5e-5)


@quick
@given(g=groups(rewards=DENSE))
def test_with_lambda_one_it_is_the_step_part_of_gigpo_without_its_deviation(g):
    ours = gagpo(gae_lambda=1.0).assign(g).flat_step_rewards
    gigpo = credit.make("gigpo", step_scale="none").assign(g).flat_step_advantages
    np.testing.assert_allclose(ours, gigpo, atol=1e-12)
    sums = np.bincount(g.arrays.state, ours) if len(ours) else np.zeros(0)
    np.testing.assert_allclose(sums, 0.0, atol=1e-10)


def test_later_states_credit_a_singleton_state_below_lambda_one():
    # s, then a or b (visited once each), both meet at x
    played = group(walk("s a x end"), walk("s b x end", "failed"))
    assert gagpo(gae_lambda=1.0).assign(played).step_rewards[0][1] == pytest.approx(0.0, abs=1e-12)
    assert gagpo(gae_lambda=0.5).assign(played).step_rewards[0][1] != 0.0


@quick
@given(g=groups(rewards=SPARSE, ends=("failed", "env_limit", "format")))
def test_a_group_without_success_gets_exactly_zero(g):
    assert not gagpo().assign(g).flat_advantages.any()


def test_one_rollout_without_repeats_gets_exactly_zero():
    assert not gagpo().assign(group(walk("s a b c d g"))).flat_advantages.any()


@quick
@given(rewards=st.lists(st.sampled_from([0.1, -0.3, 0.7, 1e-3]), min_size=2, max_size=9), size=st.integers(2, 5))
def test_equal_rollouts_get_exactly_zero_although_their_sums_are_rounded(rewards, size):
    path = [f"{t}" for t in range(len(rewards) + 1)]
    played = group(*[walk(path, "failed", rewards=rewards, name=f"{i}") for i in range(size)])
    assert not gagpo().assign(played).flat_advantages.any()


def test_a_truncated_episode_ends_with_value_zero():
    cut = group(walk("s x end", name="won"), walk("s x", "env_limit", name="cut"))
    # δ of the cut turn is 0 − V(s), V(s) = γ/2: nothing is taken from V(x)
    assert gagpo().assign(cut).step_rewards[1][0] == pytest.approx(-0.475)


def test_successes_of_unequal_length_are_no_ties():
    played = group(walk("s g"), walk("s a b g"))
    assert gagpo().assign(played).flat_advantages[0] > 0.0
    report = credit.check_credit(gagpo(), draws=20)
    assert not report.holds("stopping_time")
    assert not report.holds("shift")


def test_an_invalid_turn_loses_its_penalty_before_normalising():
    played = group(walk("s a", "failed", invalid=[0]), walk("s b", "failed"))
    np.testing.assert_allclose(gagpo(invalid_penalty=0.1).assign(played).flat_advantages, [-1.0, 1.0], rtol=1e-4)


@quick
@given(g=groups(rewards=DENSE))
def test_text_keys_that_distinguish_the_same_states_give_the_same_credit(g):
    assert gagpo(key="text").assign(g).flat_advantages.tolist() == gagpo().assign(g).flat_advantages.tolist()


@pytest.mark.parametrize("name", ["discount", "gae_lambda"])
def test_options_out_of_range_are_rejected_by_name(name):
    with pytest.raises(ConfigError, match=rf"gagpo\.{name} must lie in \[0, 1\]"):
        gagpo(**{name: 1.5})
