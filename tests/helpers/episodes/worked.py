"""Numbers of examples small enough to work out by hand.

Three samples {x, y, y} recur: mean y + (x−y)/3, deviations 2/3, −1/3, −1/3 of (x−y), sum of squares 2/3, sample
variance 1/3, so the normalised values are 2/√3, −1/√3, −1/√3 whatever x > y. Two samples give ±1/√2.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

ONE_OF_THREE = [2 / sqrt(3), -1 / sqrt(3), -1 / sqrt(3)]
HALF = 1 / sqrt(2)


def near(got, expected):
    flat = [x for row in got for x in np.atleast_1d(row)]
    expected_flat = [x for row in expected for x in np.atleast_1d(row)]
    assert [len(np.atleast_1d(row)) for row in got] == [len(np.atleast_1d(row)) for row in expected]
    np.testing.assert_allclose(flat, expected_flat, rtol=1e-12, atol=1e-12)
