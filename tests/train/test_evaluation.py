"""Figures of an evaluation: pass@k and intervals against known values."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.evaluation import clustered_interval, pass_at_k, wilson_interval


def test_pass_at_k_is_the_share_of_k_subsets_with_a_success() -> None:
    for successes in range(6):
        outcomes = [1] * successes + [0] * (5 - successes)
        for k in range(1, 6):
            exact = np.mean([any(subset) for subset in combinations(outcomes, k)])
            assert pass_at_k(np.array([successes]), 5, k)[0] == pytest.approx(exact)


def test_pass_at_k_needs_k_samples() -> None:
    with pytest.raises(ConfigError):
        pass_at_k(np.array([1]), 2, 3)


def test_wilson_interval_has_known_values_and_stays_in_range() -> None:
    assert wilson_interval(0, 10)[0] == 0.0
    assert wilson_interval(0, 10)[1] == pytest.approx(0.2775, abs=1e-4)
    assert wilson_interval(10, 10)[1] == 1.0


def test_clustered_interval_widens_with_spread() -> None:
    narrow, wide = clustered_interval(np.array([0.4, 0.5, 0.6])), clustered_interval(np.array([0.0, 0.5, 1.0]))
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]
