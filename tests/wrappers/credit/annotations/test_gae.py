"""GAE: truncation, concatenated episodes and rejected arguments; whitening of equal, huge and tiny numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit import CreditError, gae, whiten
from creditflow.wrappers.credit.annotations.gae import gae_ragged

numbers = st.lists(st.floats(-10, 10), min_size=1, max_size=8)
unit = st.floats(0, 1)


@given(rewards=numbers, discount=unit, gae_lambda=unit, seed=st.integers(0, 99))
def test_a_truncated_episode_with_bootstrap_value_has_the_same_temporal_differences(
    rewards, discount, gae_lambda, seed
):
    # truncated before the last step, with the value of the state there: the earlier temporal differences are the same
    values = np.random.default_rng(seed).normal(size=len(rewards))
    whole = gae(np.array(rewards), values, discount=discount, gae_lambda=gae_lambda)
    truncated = gae(
        np.array(rewards[:-1]), values[:-1], discount=discount, gae_lambda=gae_lambda, last_value=values[-1]
    )
    factor = (discount * gae_lambda) ** np.arange(len(rewards) - 1, 0, -1)
    np.testing.assert_allclose(whole[:-1] - truncated, factor * whole[-1], rtol=1e-9, atol=1e-9)


@given(lengths=st.lists(st.integers(0, 6), max_size=5), discount=unit, gae_lambda=unit, seed=st.integers(0, 99))
def test_concatenated_episodes_are_bit_equal_to_separate_ones(lengths, discount, gae_lambda, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    (rewards, values), last = rng.normal(size=(2, offsets[-1])), rng.normal(size=len(lengths))
    got = gae_ragged(rewards, values, offsets, discount=discount, gae_lambda=gae_lambda, last_values=last)
    for a, b, end in zip(offsets[:-1], offsets[1:], last, strict=True):
        alone = gae(rewards[a:b], values[a:b], discount=discount, gae_lambda=gae_lambda, last_value=end)
        assert got[a:b].tolist() == alone.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gae(np.zeros(3), np.zeros(2)), CreditError, r"shapes \(2,\) and \(3,\)"),
        (lambda: gae(np.array([np.nan]), np.zeros(1)), CreditError, "not finite"),
        (lambda: gae(np.zeros(1), np.array([np.inf])), CreditError, "not finite"),
        (lambda: gae(np.array([1e308, 1e308]), np.zeros(2)), CreditError, "not finite"),
        (lambda: gae(np.zeros(1), np.zeros(1), discount=1.1), ConfigError, "discount"),
        (lambda: gae(np.zeros(1), np.zeros(1), gae_lambda=-0.1), ConfigError, "gae_lambda"),
    ],
)
def test_invalid_arguments_are_rejected(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("x", [[], [5.0], [0.1 + 0.2, 0.3, 0.3], [1e300, 1e300]])
def test_whitening_of_equal_values_gives_exactly_zero(x):
    assert whiten(np.array(x), np.ones(len(x), np.bool_)).tolist() == [0.0] * len(x)


def test_whitening_survives_huge_and_tiny_numbers() -> None:
    plain = whiten(np.array([1.0, 2.0, 4.0]), np.ones(3, np.bool_))
    for size in (1e200, 1e-200):
        np.testing.assert_allclose(whiten(size * np.array([1.0, 2.0, 4.0]), np.ones(3, np.bool_)), plain)
