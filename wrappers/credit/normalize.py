"""Normalisation within groups: mean, standard deviation, eps, ties and singletons, in one place.

Every published scheme subtracts a group's mean and may divide by its standard deviation. They differ in what counts as a
sample, in the kind of deviation, in what is added to it, and in what a singleton gets. These are the arguments here.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import unknown_name_error
from creditflow.wrappers.credit.base import RECORDER, CreditError, Statistics

__all__ = ["Scale", "SingletonScore", "StdKind", "normalize"]

Scale = Literal["std", "none"]
StdKind = Literal["sample", "population"]
SingletonScore = Literal["zero", "raw"]
Floats = NDArray[np.float64]
Labels = NDArray[np.int32]

TIE_TOLERANCE = 1e-9  # relative: smaller differences are rounding errors


def normalize(
    x: Floats,
    labels: Labels,
    n_groups: int,
    *,
    scale: Scale = "std",
    std_eps: float = 0.0,
    std_kind: StdKind = "sample",
    singleton: SingletonScore = "zero",
    sample: NDArray[np.bool_] | None = None,
    magnitude: Floats | None = None,
    quantity: str = "score",
    rows: NDArray[np.integer[Any]] | None = None,
) -> Floats:
    """(x − mean) / (std + eps) within each group.

    Each group is computed in units of its largest sample (a power of two, so nothing is rounded), so that squares of
    huge or tiny scores neither overflow nor vanish. Samples that are all equal (relative difference below 1e-9) have
    deviation exactly 0 and score exactly 0. In floating point their deviation is rounding noise, and dividing by it
    would make credit out of nothing.

    Args:
        x: float64 (N,).
        labels: int (N,), the group of each entry, in ``range(n_groups)``.
        n_groups: number of groups.
        scale: "std" divides by the standard deviation, "none" only subtracts the mean.
        std_eps: added to the standard deviation (outside the root). If the sum is 0, the result is 0.
        std_kind: standard deviation of a "sample" (n − 1) or of a "population" (n).
        singleton: score of the entries of a group with one sample: "zero", or "raw" (mean 0, deviation 1).
        sample: bool (N,), entries that the statistics are computed from (by default all). All entries are scored.
        magnitude: float64 (N,), size of the terms that each entry is a sum of, to which its rounding error is relative:
            0.5 − 5 · 0.1 is about −3e-17 and means 0. Default |x|.
        quantity: what x is, in words, for ``explain``.
        rows: int (N,), the turn of the group that each entry belongs to, or −1 − i for trajectory i, for ``explain``.
            By default the turns in order.

    Returns:
        float64 (N,).

    Raises:
        ConfigError: an option has an unknown value.
        CreditError: ``x`` is not finite, or a difference exceeds float64.
    """
    for option, value, choices in (
        ("scale", scale, Scale),
        ("std_kind", std_kind, StdKind),
        ("singleton", singleton, SingletonScore),
    ):
        if value not in get_args(choices):
            raise unknown_name_error(f"value of {option}", str(value), get_args(choices))
    if not np.isfinite(x).all():
        raise CreditError("scores of a group are not finite: are rewards or annotations huge?")
    with np.errstate(over="ignore", invalid="ignore"):  # rejected below, by name
        normalized = _normalized(x, labels, n_groups, scale, std_eps, std_kind, sample, magnitude)
    out, count = normalized.result, normalized.samples
    if not np.isfinite(out).all():
        raise CreditError("scores of a group differ by more than float64 can represent: are rewards huge?")
    out = np.where((count <= 1.0)[labels], x if singleton == "raw" else 0.0, out)
    if (recorder := RECORDER.get()) is not None:
        recorder.add(
            Statistics(
                quantity,
                x=x,
                labels=labels,
                sample=np.ones(len(x), np.bool_) if sample is None else sample,
                mean=normalized.mean,
                deviation=normalized.deviation,
                divisor=normalized.divisor,
                result=out,
                rows=np.arange(len(x)) if rows is None else rows,
            )
        )
    return out


class _Normalized(NamedTuple):
    """Scores (N,) with the divisor of each, and the number of samples, mean and deviation of each group (n_groups,)."""

    result: Floats
    divisor: Floats
    samples: Floats
    mean: Floats
    deviation: Floats


def _normalized(
    x: Floats,
    labels: Labels,
    n_groups: int,
    scale: Scale,
    std_eps: float,
    std_kind: StdKind,
    sample: NDArray[np.bool_] | None,
    magnitude: Floats | None,
) -> _Normalized:
    chosen = slice(None) if sample is None else sample
    labels = labels.astype(np.intp)  # ``ufunc.at`` is slow with other integers
    group = labels[chosen]
    count = np.bincount(group, minlength=n_groups).astype(np.float64)
    size = np.zeros(n_groups)
    np.maximum.at(size, group, np.abs(x[chosen]))
    unit = np.where(size > 0.0, np.ldexp(1.0, np.frexp(size)[1] - 1), 1.0)  # the power of two at or below it
    z = x / unit[labels]
    y = z[chosen]
    mean = np.bincount(group, y, minlength=n_groups) / np.maximum(count, 1.0)
    centered = z - mean[labels]
    if magnitude is not None:
        np.maximum.at(size, group, np.minimum(magnitude, np.finfo(np.float64).max)[chosen])
    tolerance = TIE_TOLERANCE * size / unit
    tied = ~(_range(y, group, n_groups) > tolerance)
    centered = np.where(tied[labels] & (np.abs(centered) <= tolerance[labels]), 0.0, centered)
    squares = np.bincount(group, (y - mean[group]) ** 2, minlength=n_groups)
    std = np.sqrt(squares / np.maximum(count - 1.0 if std_kind == "sample" else count, 1.0))
    std = np.where(tied, 0.0, std)
    if scale == "none":
        return _Normalized(centered * unit[labels], np.ones(len(x)), count, mean * unit, std * unit)
    divisor = (std + std_eps / unit)[labels]
    result = np.divide(centered, divisor, out=np.zeros_like(centered), where=divisor > 0.0)
    return _Normalized(result, divisor * unit[labels], count, mean * unit, std * unit)


def _range(y: Floats, group: Labels, n_groups: int) -> Floats:
    """Largest minus smallest sample of each group, or −inf if the group has no samples."""
    low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low, group, y)
    np.maximum.at(high, group, y)
    width: Floats = high - low
    return width
