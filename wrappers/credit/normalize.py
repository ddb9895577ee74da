"""The one place where credit is compared within groups: mean, spread, eps, ties and singletons.

Every published scheme subtracts a group's mean and perhaps divides by its standard deviation; they differ in who is a
sample, which deviation, what is added to it, and what a group of one gets. Those are the arguments here.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import unknown_name_error
from creditflow.wrappers.credit.base import CreditError

__all__ = ["Scale", "SingletonScore", "StdKind", "normalize"]

Scale = Literal["std", "none"]
StdKind = Literal["sample", "population"]
SingletonScore = Literal["zero", "raw"]

TIE_TOLERANCE = 1e-9  # relative: differences below it are rounding, not information


def normalize(
    x: NDArray[np.float64],
    labels: NDArray[np.int32],
    n_groups: int,
    *,
    scale: Scale = "std",
    std_eps: float = 0.0,
    std_kind: StdKind = "sample",
    singleton: SingletonScore = "zero",
    sample: NDArray[np.bool_] | None = None,
    magnitude: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """(x − mean) / (std + eps) within each group.

    Each group is computed in units of its largest sample (a power of two, so nothing is rounded): squares of huge or
    tiny scores neither overflow nor vanish. Samples that are all equal (relative difference below 1e-9) have deviation exactly 0 and score exactly 0: in
    floating point their deviation is rounding noise, and dividing by it would invent credit.

    Args:
        x: float64 (N,).
        labels: int (N,), the group of each entry, in ``range(n_groups)``.
        n_groups: number of groups.
        scale: "std" divides by the standard deviation, "none" only subtracts the mean.
        std_eps: added to the standard deviation (outside the root); where the sum is 0 the result is 0.
        std_kind: "sample" (n − 1) or "population" (n).
        singleton: what the entries of a group with one sample get: "zero", or "raw" (mean 0, deviation 1).
        sample: bool (N,), which entries make the statistics; all entries are scored. Default all.
        magnitude: float64 (N,), the size of the terms each entry was summed from, which its rounding error is relative
            to: 0.5 − 5 · 0.1 is about 3e-17 and means 0. Default |x|.

    Returns:
        float64 (N,).

    Raises:
        ConfigError: an option has another value.
        CreditError: ``x`` is not finite, or a difference is beyond float64.
    """
    for option, value, known in (
        ("scale", scale, Scale),
        ("std_kind", std_kind, StdKind),
        ("singleton", singleton, SingletonScore),
    ):
        if value not in get_args(known):
            raise unknown_name_error(f"value of {option}", str(value), get_args(known))
    if not np.isfinite(x).all():
        raise CreditError("scores of a group are not finite: are rewards or annotations huge?")
    y, at = (x, labels) if sample is None else (x[sample], labels[sample])
    count = np.bincount(at, minlength=n_groups).astype(np.float64)
    size = np.zeros(n_groups)
    np.maximum.at(size, at, np.abs(y))
    unit = np.where(size > 0.0, np.ldexp(1.0, np.frexp(size)[1] - 1), 1.0)  # the power of two at or below it
    with np.errstate(over="ignore", invalid="ignore"):  # refused below, by name
        z = x / unit[labels]
        y = z if sample is None else z[sample]
        mean = np.bincount(at, y, minlength=n_groups) / np.maximum(count, 1.0)
        centred = z - mean[labels]
        low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
        np.minimum.at(low, at, y)
        np.maximum.at(high, at, y)
        if magnitude is not None:
            terms = np.minimum(magnitude, np.finfo(np.float64).max)
            np.maximum.at(size, at, terms if sample is None else terms[sample])
        tolerance = TIE_TOLERANCE * size / unit
        tied = ~(high - low > tolerance)
        centred = np.where(tied[labels] & (np.abs(centred) <= tolerance[labels]), 0.0, centred)
        if scale == "std":
            squares = np.bincount(at, (y - mean[at]) ** 2, minlength=n_groups)
            std = np.sqrt(squares / np.maximum(count - 1.0 if std_kind == "sample" else count, 1.0))
            divisor = (np.where(tied, 0.0, std) + std_eps / unit)[labels]
            out = np.divide(centred, divisor, out=np.zeros_like(centred), where=divisor > 0.0)
        else:
            out = centred * unit[labels]
    if not np.isfinite(out).all():
        raise CreditError("scores of a group differ by more than float64 holds: are rewards huge?")
    alone = (count <= 1.0)[labels]
    return np.where(alone, x if singleton == "raw" else 0.0, out)
