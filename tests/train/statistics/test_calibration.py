"""The calibration error against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from creditflow.train.statistics import calibration_error


def test_calibration_error_is_the_mean_gap_of_bins():
    probability, outcome = np.array([0.1, 0.1, 0.9, 0.9]), np.array([False, True, True, True])
    assert calibration_error(probability, outcome) == pytest.approx(0.5 * 0.4 + 0.5 * 0.1)
    assert calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0
