"""AUC, calibration error and the bootstrap against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.annotate.success.metrics import auc, bootstrap, calibration_error

SAMPLES = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), min_size=2, max_size=20)


@given(samples=SAMPLES)
def test_auc_counts_pairs_in_order_and_ties_half(samples):
    scores, positive = np.array([s for s, _ in samples]), np.array([p for _, p in samples])
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    got = auc(scores, positive)
    assert math.isnan(got) if not pairs else got == pytest.approx(np.mean(pairs))


def test_calibration_error_is_the_mean_gap_of_bins():
    probability, outcome = np.array([0.1, 0.1, 0.9, 0.9]), np.array([False, True, True, True])
    assert calibration_error(probability, outcome) == pytest.approx(0.5 * 0.4 + 0.5 * 0.1)
    assert calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0


def test_the_bootstrap_draws_whole_parts():
    x = np.repeat([0.0, 1.0], 50)
    parts = [np.arange(50), np.arange(50, 100)]
    low, high = bootstrap(parts, lambda i: float(x[i].mean()), draws=200, rng=np.random.default_rng(0))
    assert (low, high) == (0.0, 1.0)  # single samples would stay near one half
