"""Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438, eq. 16), and whitening.

Functions of arrays: a step is a token or a turn, as the caller decides. Time is the last axis.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.records.group import backward_sums

__all__ = ["gae", "gae_ragged", "mean_and_std", "whiten"]


def gae(
    rewards: NDArray[np.float64],
    values: NDArray[np.float64],
    *,
    discount: float = 1.0,
    gae_lambda: float = 1.0,
    last_value: ArrayLike = 0.0,
) -> NDArray[np.float64]:
    """Â_t = Σ_l (γλ)^l δ_{t+l} with δ_t = r_t + γ V(s_{t+1}) − V(s_t).

    ``Â + values`` are the λ-returns, the value targets of the critic.

    >>> gae(np.array([0.0, 1.0]), np.array([0.5, 0.75]))
    array([0.5 , 0.25])

    Args:
        rewards: float64 (…, T), r_t.
        values: float64 (…, T), V(s_t).
        discount: γ in [0, 1].
        gae_lambda: λ in [0, 1]. 0 gives one-step temporal differences, 1 Monte Carlo returns minus values.
        last_value: (…), V(s_T): 0 for terminated episodes, a value for truncated ones.

    Raises:
        CreditError: shapes differ, or a number is not finite.
        ConfigError: γ or λ is out of range.
    """
    rewards, values = np.asarray(rewards, np.float64), np.asarray(values, np.float64)
    if rewards.shape != values.shape:
        raise CreditError(f"GAE needs a value for every reward, got shapes {values.shape} and {rewards.shape}")
    for name, number in (("discount", discount), ("gae_lambda", gae_lambda)):
        if not 0.0 <= number <= 1.0:
            raise ConfigError(f"{name} must lie in [0, 1], got {short_repr(number)}")
    length = rewards.shape[-1]
    after = np.empty(values.shape)
    after[..., :-1] = values[..., 1:]
    if length:
        after[..., -1] = last_value
    with np.errstate(over="ignore", invalid="ignore"):  # rejected below
        out = np.ascontiguousarray(np.moveaxis(rewards + discount * after - values, -1, 0))
        for t in range(length - 2, -1, -1):
            out[t] += discount * gae_lambda * out[t + 1]
    return _finite(np.moveaxis(out, 0, -1))


def _finite(advantages: NDArray[np.float64]) -> NDArray[np.float64]:
    if not np.isfinite(advantages).all():
        raise CreditError("advantages are not finite: are rewards or values huge, or NaN?")
    return advantages


def gae_ragged(
    rewards: NDArray[np.float64],
    values: NDArray[np.float64],
    offsets: NDArray[np.int64],
    *,
    discount: float = 1.0,
    gae_lambda: float = 1.0,
    last_values: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """``gae`` of many episodes of unequal length, in time linear in the number of steps.

    Args:
        rewards, values: float64 (N,), the episodes one after another.
        offsets: int64 (G+1,). Episode i is ``offsets[i]:offsets[i+1]``.
        discount, gae_lambda: γ and λ.
        last_values: float64 (G,), default 0.

    Returns:
        float64 (N,).

    Raises:
        CreditError: an advantage is not finite.
    """
    lengths = np.diff(offsets)
    after = np.append(values[1:], 0.0)[: len(values)]
    ends = np.zeros(len(lengths)) if last_values is None else last_values
    after[offsets[1:][lengths > 0] - 1] = ends[lengths > 0]
    with np.errstate(over="ignore", invalid="ignore"):  # rejected below
        out = backward_sums(rewards + discount * after - values, offsets, discount * gae_lambda)
    return _finite(out)


def mean_and_std(samples: NDArray[np.float64], eps: float = 0.0) -> tuple[float, float]:
    """Mean, and √(sample variance + eps), which is 0 if all samples are equal up to rounding.

    Args:
        samples: float64 (n,). Fewer than two have variance 0.
        eps: added to the variance (inside the root).
    """
    size = float(np.abs(samples).max(initial=0.0))
    if len(samples) < 2 or np.ptp(samples) <= 1e-9 * size:
        return (float(samples.mean()) if len(samples) else 0.0), 0.0
    scaled = samples / size  # squares of huge or tiny numbers neither overflow nor vanish
    return float(scaled.mean() * size), float(np.hypot(scaled.std(ddof=1), np.sqrt(eps) / size) * size)


def whiten(x: NDArray[np.float64], mask: NDArray[np.bool_], *, eps: float = 0.0) -> NDArray[np.float64]:
    """(x − mean) / √(variance + eps), with statistics over ``mask`` alone. Every entry is scaled.

    With variance 0 every entry becomes 0.

    Args:
        x: float64, any shape.
        mask: bool, same shape: entries that are samples.
        eps: see ``mean_and_std``.
    """
    mean, std = mean_and_std(x[mask], eps)
    return (x - mean) / std if std > 0.0 else np.zeros_like(x)
