"""Student's t distribution: tails and quantiles by the incomplete beta function."""

from __future__ import annotations

import math
import statistics
from typing import Final

from creditflow.envs.errors import ConfigError

__all__ = ["t_quantile", "t_tails"]

NORMAL: Final = 1e6  # degrees of freedom from which the normal distribution is used instead
TINY: Final = 1e-300
PRECISION: Final = 1e-15


def t_tails(t: float, freedom: float) -> float:
    """P(|T| ≥ |t|), the two-sided p-value of a t statistic.

    >>> round(t_tails(2.571, 5), 3)
    0.05

    Args:
        t: the statistic; may be infinite.
        freedom: degrees of freedom, above 0; from a million on, T is taken as normal.
    """
    if freedom >= NORMAL:
        return math.erfc(abs(t) / math.sqrt(2.0))
    square = t * t
    return _beta(
        freedom / 2.0, 0.5, freedom / (freedom + square), square / (freedom + square) if square < math.inf else 1.0
    )


def t_quantile(freedom: float, probability: float = 0.975) -> float:
    """The quantile of Student's t distribution: t with P(T ≤ t) = ``probability``.

    >>> round(t_quantile(5), 3), round(t_quantile(1e6), 2)
    (2.571, 1.96)

    Args:
        freedom: degrees of freedom, at least 1.
        probability: in [.5, 1).

    Raises:
        ConfigError: an argument is out of its range.
    """
    if not (freedom >= 1.0 and 0.5 <= probability < 1.0):
        raise ConfigError(
            "a quantile of Student's t needs at least 1 degree of freedom and a probability in [.5, 1), "
            f"got {freedom} and {probability}"
        )
    t = statistics.NormalDist().inv_cdf(probability)
    if freedom >= NORMAL:
        return t
    upper = 1.0 - probability
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    # the tail is convex and t starts below its quantile, so Newton's steps are positive until only rounding errors remain
    for _ in range(200):
        density = scale * (1.0 + t * t / freedom) ** (-(freedom + 1) / 2)
        step = (t_tails(t, freedom) / 2.0 - upper) / density
        t += step
        if step <= 1e-13 * t:
            break
    return t


def _beta(a: float, b: float, x: float, y: float) -> float:
    """The regularised incomplete beta function I_x(a, b); y = 1 − x is an argument because the difference would be rounded."""
    if x <= 0.0 or y <= 0.0:
        return float(x > 0.0)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, y) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method; needs O(√max(a, b)) terms."""
    c, d = 1.0, 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + term * d)
            c = _away_from_zero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < PRECISION:
            break
    return value


def _away_from_zero(x: float) -> float:
    return x if abs(x) > TINY else TINY
