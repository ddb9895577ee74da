"""The endpoints, fixed before any run: exact success on held-out tasks, sampled, at the end and during training. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["endpoint"]

Floats = NDArray[np.float64]


def endpoint(family: Mapping[str, Any], method: str, when: Literal["area", "final"]) -> Floats:
    """Success of a method, float64 (S, T): rows are seeds and columns are tasks, by both of which methods are paired.

    Args:
        family: the results of one family of tasks.
        method: a trained method, or what is reached without reinforcement learning, which has no curve and so one value for both:
            "best temperature" or "more imitation".
        when: the end of the curve, or the area under it.
    """
    if method == "best temperature":
        return _values([floor["best"] for floor in family["floors"]])
    if method == "more imitation":
        return _values([floor["imitation"]["same"] for floor in family["floors"]])
    curves = family["runs"][method]
    values = np.stack([_values(curve) for curve in curves])  # (S, points, T)
    if when == "final":
        return np.asarray(values[:, -1])
    at = np.array([point["iteration"] for point in curves[0]], np.float64)
    width = np.diff(at) / at[-1]
    area: Floats = np.einsum("p,spt->st", width, 0.5 * (values[:, 1:] + values[:, :-1]))  # the trapezoidal rule
    return area


def _values(points: Sequence[Mapping[str, Any]]) -> Floats:
    return np.array([point["held_out"]["sampled"] for point in points], np.float64)
