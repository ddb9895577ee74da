"""When a turn is forked: ARPO's threshold, or a probability as in its released code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.settings.branching import BranchConfig, mean_entropy
from creditflow.train.settings.reading import read_dataclass

NUMBERS = st.floats(-2, 2)


@given(entropy=NUMBERS, first=NUMBERS, base=NUMBERS, slope=NUMBERS, threshold=NUMBERS, each=st.integers(1, 4))
def test_the_threshold_forks_surely_or_not_at_all_and_draws_nothing(
    entropy: float, first: float, base: float, slope: float, threshold: float, each: int
) -> None:
    config = BranchConfig(base=base, slope=slope, threshold=threshold, branches_per_turn=each)
    rng = np.random.default_rng(0)
    forks = base + slope * (entropy - first) > threshold
    assert config.branches(entropy, first, rng) == (each if forks else 0)
    assert rng.random() == np.random.default_rng(0).random()


@pytest.mark.parametrize(("rise", "probability"), [(0.0, 0.5), (1.0, 0.7), (-1.0, 0.3), (9.0, 1.0), (-9.0, 0.0)])
def test_the_probability_rises_with_the_entropy_between_0_and_1(rise: float, probability: float) -> None:
    config = BranchConfig(rule="probability", base=0.5, slope=0.2, branches_per_turn=3)
    rng, turns = np.random.default_rng(1), 4_000
    made = [config.branches(1.0 + rise, 1.0, rng) for _ in range(turns)]
    deviation = math.sqrt(probability * (1 - probability) / (3 * turns))
    assert abs(sum(made) / (3 * turns) - probability) <= 4 * deviation
    assert set(made) <= {0, 1, 2, 3}


@given(base=NUMBERS, each=st.integers(1, 4))
def test_the_probability_draws_as_many_numbers_whatever_comes_of_them(base: float, each: int) -> None:
    rng, other = np.random.default_rng(3), np.random.default_rng(3)
    BranchConfig(rule="probability", base=base, branches_per_turn=each).branches(0.0, 0.0, rng)
    other.random(each)
    assert rng.random() == other.random()


def test_the_released_weight_in_our_units() -> None:
    """0.2 × (the sum over 20 tokens / ln V) is 0.335 × their mean."""
    entropies = np.linspace(0.1, 1.9, 20, dtype=np.float32)
    released = 0.5 + 0.2 * float(entropies.sum(dtype=np.float64)) / math.log(151_665)
    ours = 0.5 + 0.335 * mean_entropy(entropies, 20)
    assert ours == pytest.approx(released, abs=5e-4)


def test_a_wrong_rule_is_an_error() -> None:
    with pytest.raises(ConfigError, match="rule"):
        read_dataclass(BranchConfig, {"rule": "probabilty"})
    with pytest.raises(ConfigError, match="shared_prefix_advantage"):
        read_dataclass(BranchConfig, {"shared_prefix_advantage": "total"})
