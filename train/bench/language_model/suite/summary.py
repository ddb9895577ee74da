"""Results of the suite ``lm``: endpoints, contrasts with the baseline, predictions. Imports no torch.

Endpoints, fixed before any run: the final exact success and the area under its curve, sampled on held-out tasks (primary),
greedy and on training tasks (secondary). Tasks and seeds are crossed, and methods are paired by both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.statistics import ClusteredMean, Contrast, contrasts_of, crossed_mean, stratified_mean

__all__ = [
    "ENDPOINTS",
    "PRIMARY",
    "checked_predictions",
    "endpoint",
    "endpoint_values",
    "family_contrasts",
    "method_means",
    "outcome_of",
    "pooled_contrasts",
]

Floats = NDArray[np.float64]
Family = Mapping[str, Any]


class Endpoint(NamedTuple):
    """What is compared: the set of tasks, sampled or greedy actions, and the end of the curve or the area under it."""

    tasks: str
    decoding: str
    when: str


ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "held-out area": Endpoint("held_out", "sampled", "area"),
    "held-out final": Endpoint("held_out", "sampled", "final"),
    "held-out greedy": Endpoint("held_out", "greedy", "final"),
    "trained area": Endpoint("train", "sampled", "area"),
    "trained final": Endpoint("train", "sampled", "final"),
}
PRIMARY: Final = ("held-out area", "held-out final")


def endpoint(curves: Sequence[Sequence[Mapping[str, Any]]], name: str) -> Floats:
    """An endpoint of one method: float64 (S, T), rows are seeds and columns are tasks.

    Args:
        curves: the learning curve of each seed.
        name: one of ``ENDPOINTS``.
    """
    what = ENDPOINTS[name]

    def values_of(curve: Sequence[Mapping[str, Any]]) -> list[list[float]]:
        return [point[what.tasks][what.decoding] for point in curve]

    values = np.array(list(map(values_of, curves)))  # (S, points, T)
    if what.when == "final":
        return np.asarray(values[:, -1])
    at = np.array([point["iteration"] for point in curves[0]], np.float64)
    width = np.diff(at) / at[-1]
    area: Floats = np.einsum("p,spt->st", width, 0.5 * (values[:, 1:] + values[:, :-1]))  # the trapezoidal rule
    return area


def method_means(family: Family, name: str) -> dict[str, ClusteredMean]:
    """Mean of an endpoint by method, with its standard error over seeds and tasks."""
    return {method: crossed_mean(endpoint(curves, name)) for method, curves in family["runs"].items()}


def family_contrasts(family: Family, name: str, baseline: str) -> dict[str, Contrast]:
    """Every other method minus the baseline; p-values are adjusted over the methods."""
    return contrasts_of(_differences(family, name, baseline))


def pooled_contrasts(families: Mapping[str, Family], name: str, baseline: str) -> dict[str, Contrast]:
    """As ``family_contrasts``, over families with equal weights."""
    by_family = [_differences(family, name, baseline) for family in families.values()]
    methods = list(by_family[0])
    of_method = zip(*(map(of_family.__getitem__, methods) for of_family in by_family), strict=True)
    return contrasts_of(dict(zip(methods, map(stratified_mean, of_method), strict=True)))


def _differences(family: Family, name: str, baseline: str) -> dict[str, ClusteredMean]:
    base = endpoint(family["runs"][baseline], name)
    return {
        method: crossed_mean(endpoint(curves, name) - base)
        for method, curves in family["runs"].items()
        if method != baseline
    }


# -- predictions ------------------------------------------------------------------------------------------------------------
def checked_predictions(families: Mapping[str, Family]) -> list[dict[str, Any]]:
    """Each prediction with its outcome: "hit", "miss", "open" (the interval contains the margin) or "not run".

    A prediction names the better and the worse of two methods, an endpoint, and families.
    """
    text = (files("creditflow.train.bench.language_model.suite") / "predictions.json").read_text(encoding="utf-8")
    return [prediction | _outcome(prediction, families) for prediction in json.loads(text)["predictions"]]


def _outcome(prediction: Mapping[str, Any], families: Mapping[str, Family]) -> dict[str, Any]:
    better, worse, name = prediction["better"], prediction["worse"], prediction["endpoint"]
    about = [families[family] for family in prediction["families"] if family in families]
    if len(about) < len(prediction["families"]) or any({better, worse} - _known(family) for family in about):
        return {"outcome": "not run", "observed": "–"}
    pooled = stratified_mean(
        [crossed_mean(endpoint_values(f, better, name) - endpoint_values(f, worse, name)) for f in about]
    )
    return outcome_of(pooled, prediction.get("margin", 0.0))


def outcome_of(difference: ClusteredMean, margin: float = 0.0, digits: int = 4) -> dict[str, Any]:
    """Outcome of one prediction: "hit", "miss" or "open"; and the observed difference with its interval."""
    low, high = difference.interval
    outcome = "hit" if low > margin else "open"
    if high < margin:
        outcome = "miss"
    return {"outcome": outcome, "observed": Estimate.of(difference).text(digits, "+")}


def _known(family: Family) -> set[str]:
    return {*family["runs"], "more imitation", "best temperature", "start"}


def endpoint_values(family: Family, method: str, name: str) -> Floats:
    """The endpoint of a method, or the final value of a floor: float64 (S, T), rows are seeds and columns are tasks.

    Args:
        family: the results of one family of tasks.
        method: a trained method, "start" (the warm-up), "best temperature" or "more imitation".
        name: one of ``ENDPOINTS``.
    """
    if method in family["runs"]:
        return endpoint(family["runs"][method], name)
    what = ENDPOINTS[name]
    floors = family["floors"]
    if method == "start":
        points = family["start"]
    else:
        points = [floor["imitation"]["same"] if method == "more imitation" else floor["best"] for floor in floors]
    return np.array([point[what.tasks][what.decoding] for point in points])
