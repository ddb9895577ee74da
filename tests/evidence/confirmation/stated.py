"""Predictions stated as data: one method exceeds another by more than a margin, at an endpoint of some studies.

A prediction is a hit if the 95 % interval of the paired difference lies above the margin, a miss if it lies below, and open if
the interval contains it. "No worse than" is a negative margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from creditflow.train.bench.language_model.suite.summary import outcome_of
from creditflow.train.bench.report.tidy import Measure, results_of

__all__ = ["check_stated"]

EVERYTHING = ["all"]


def check_stated(predictions: Sequence[Mapping[str, Any]], suites: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each prediction with its outcome; "not run" if its suite, its studies or one of its methods is missing.

    A prediction names the methods "better" and "worse", a "suite", its "studies" by label (["all"] for all of them; for a suite
    with exact values its task kinds), an "endpoint", and optionally a "margin".
    """
    return [{**prediction, "hit": None, **_outcome(prediction, suites)} for prediction in predictions]


def _outcome(prediction: Mapping[str, Any], suites: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    suite = next((suite for suite in suites if suite["name"] == prediction["suite"]), None)
    found = None if suite is None else _measure(suite, prediction["studies"], prediction["endpoint"])
    both = prediction["better"], prediction["worse"]
    if found is None or not set(both) <= set(found[0]):
        return {"outcome": "not run", "observed": "–"}
    outcome = outcome_of(found[1](*both), prediction.get("margin", 0.0))
    return {**outcome, "hit": {"hit": True, "miss": False}.get(outcome["outcome"])}


def _measure(suite: Mapping[str, Any], labels: Sequence[str], endpoint: str) -> tuple[Sequence[str], Measure] | None:
    """The methods of some studies or cells of a suite, and how they are compared; None if one was not run."""
    if "cells" in suite:
        learned = results_of(suite).where(lambda setting: "area" in setting.values)
        chosen = learned.where(lambda setting: labels == EVERYTHING or setting.kind in labels)
        if not len(chosen) or (labels != EVERYTHING and set(chosen.by("kind")) != set(labels)):
            return None
        return chosen.methods("area"), chosen.measure(endpoint)
    results = results_of(suite)
    if labels == EVERYTHING:
        labels = list(results.by("title"))
    if not set(labels) <= set(results.by("title")):
        return None
    chosen = results.where(lambda setting: setting.title in labels)
    return chosen.methods(endpoint), chosen.measure(endpoint)
