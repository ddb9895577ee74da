"""GAE: λ = 0, λ = 1, the recursion and rejected arguments; whitening uses masked entries only."""

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


def test_a_worked_example() -> None:
    # δ = 1 + 0.5·4 − 2, 0 + 0.5·8 − 4, 2 + 0.5·6 − 8 = 1, 0, −3; γλ = 0.25
    got = gae(np.array([1.0, 0.0, 2.0]), np.array([2.0, 4.0, 8.0]), discount=0.5, gae_lambda=0.5, last_value=6.0)
    np.testing.assert_allclose(got, [1 + 0.25 * (0 - 0.75), -0.75, -3.0])


@given(rewards=numbers, discount=unit, last=st.floats(-10, 10), seed=st.integers(0, 99))
def test_lambda_one_is_the_return_minus_the_value(rewards, discount, last, seed):
    values = np.random.default_rng(seed).normal(size=len(rewards))
    got = gae(np.array(rewards), values, discount=discount, gae_lambda=1.0, last_value=last)
    powers = discount ** np.arange(len(rewards) + 1)
    tail = [*rewards, last]
    expected = [np.dot(powers[: len(tail) - t], tail[t:]) - values[t] for t in range(len(rewards))]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@given(rewards=numbers, discount=unit, last=st.floats(-10, 10), seed=st.integers(0, 99))
def test_lambda_zero_is_the_temporal_difference(rewards, discount, last, seed):
    values = np.random.default_rng(seed).normal(size=len(rewards))
    got = gae(np.array(rewards), values, discount=discount, gae_lambda=0.0, last_value=last)
    np.testing.assert_allclose(got, np.array(rewards) + discount * np.append(values[1:], last) - values, atol=1e-12)


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


def test_rows_are_independent() -> None:
    rng = np.random.default_rng(0)
    rewards, values, last = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=3)
    together = gae(rewards, values, discount=0.9, gae_lambda=0.8, last_value=last)
    alone = [
        gae(r, v, discount=0.9, gae_lambda=0.8, last_value=x) for r, v, x in zip(rewards, values, last, strict=True)
    ]
    np.testing.assert_array_equal(together, alone)


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


def test_whitening_has_mean_zero_and_variance_one_over_the_mask_alone() -> None:
    rng = np.random.default_rng(1)
    x, mask = rng.normal(3.0, 7.0, 50), rng.random(50) < 0.6
    out = whiten(x, mask)
    assert out[mask].mean() == pytest.approx(0.0, abs=1e-12)
    assert out[mask].std(ddof=1) == pytest.approx(1.0)
    moved = np.where(mask, x, 1e9)
    np.testing.assert_array_equal(whiten(moved, mask)[mask], out[mask])


@pytest.mark.parametrize("x", [[], [5.0], [0.1 + 0.2, 0.3, 0.3], [1e300, 1e300]])
def test_whitening_of_equal_values_gives_exactly_zero(x):
    assert whiten(np.array(x), np.ones(len(x), np.bool_)).tolist() == [0.0] * len(x)


def test_whitening_survives_huge_and_tiny_numbers() -> None:
    plain = whiten(np.array([1.0, 2.0, 4.0]), np.ones(3, np.bool_))
    for size in (1e200, 1e-200):
        np.testing.assert_allclose(whiten(size * np.array([1.0, 2.0, 4.0]), np.ones(3, np.bool_)), plain)
