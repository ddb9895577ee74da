"""Scores of a judge on a credit set, by environment: ranking within a state, good against bad turns, calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.played.forks import reliability
from creditflow.train.credit_set.baselines import BASELINES, baseline
from creditflow.train.credit_set.calibration import (
    brier_score,
    cross_fitted,
    expected_calibration_error,
    least_brier_score,
)
from creditflow.train.credit_set.predictions import Prediction
from creditflow.train.credit_set.reading import CreditTurn
from creditflow.train.statistics import auroc, percentile_interval, spearman

__all__ = ["METRICS", "THRESHOLD", "score_document", "score_env"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

METRICS: Final = ("concordance", "auroc", "auroc_centred", "spearman", "brier", "ece", "brier_recalibrated", "ece_recalibrated")  # fmt: skip
THRESHOLD: Final = 0.05  # τ: a turn is good if A > τ, bad if A < −τ, in both cases beyond its noise
SIGNIFICANT: Final = 1.96  # standard errors by which a difference must exceed 0
TOLERANCE: Final = 1e-9
RESAMPLES: Final = 500


class _Truth(NamedTuple):
    """The turns of one environment as arrays.

    Attributes:
        q, advantage: float64 (N,).
        labelled, good: bool (N,), turns that are good or bad beyond noise; those of them that are good.
        pairs: int64 (M, 3): a turn, and two of its actions, 0 for the one taken; the first has the larger Q.
        weight: float64 (M,), ΔQ of each pair.
        cluster: int64 (N,), number of the turn's task.
    """

    q: Floats
    advantage: Floats
    labelled: NDArray[np.bool_]
    good: NDArray[np.bool_]
    pairs: Indices
    weight: Floats
    cluster: Indices


def _truth(turns: Sequence[CreditTurn]) -> _Truth:
    q = np.array([turn.taken.q for turn in turns])
    advantage = q - [turn.v for turn in turns]
    error = np.hypot([turn.taken.standard_error for turn in turns], [turn.v_error for turn in turns])
    beyond = np.abs(advantage) > np.maximum(THRESHOLD, SIGNIFICANT * error)
    pairs, weight = [], []
    for number, turn in enumerate(turns):
        actions = (turn.taken, *turn.alternatives)
        for i, one in enumerate(actions):
            for j, other in enumerate(actions[:i]):
                difference = one.q - other.q
                if abs(difference) > max(
                    TOLERANCE, SIGNIFICANT * float(np.hypot(one.standard_error, other.standard_error))
                ):
                    pairs.append((number, i, j) if difference > 0 else (number, j, i))
                    weight.append(abs(difference))
    tasks = sorted({turn.task_id for turn in turns})
    index = {task: number for number, task in enumerate(tasks)}
    return _Truth(
        q, advantage, beyond, beyond & (advantage > 0), np.array(pairs, np.int64).reshape(-1, 3), np.array(weight),
        np.array([index[turn.task_id] for turn in turns], np.int64),
    )  # fmt: skip


def score_env(
    turns: Sequence[CreditTurn], predictions: Sequence[Prediction], *, resamples: int = RESAMPLES
) -> dict[str, Floats]:
    """Metrics of one environment by name: float64 (1 + resamples,), the value and then those of resampled tasks.

    ``concordance`` and ``auroc_centred`` are NaN if alternatives are not rated, ``brier`` and ``ece`` if a score lies outside
    [0, 1].
    """
    truth, scores = _truth(turns), np.array([one.score for one in predictions])
    statistics = _statistics(truth, scores, predictions)
    members = [np.flatnonzero(truth.cluster == number) for number in range(int(truth.cluster.max()) + 1)]
    drawn = np.random.default_rng(0).integers(len(members), size=(resamples, len(members)))
    samples = [np.arange(len(turns)), *(np.concatenate([members[i] for i in row]) for row in drawn)]
    return {name: np.array([statistics[name](sample) for sample in samples]) for name in METRICS}


def _statistics(
    truth: _Truth, scores: Floats, predictions: Sequence[Prediction]
) -> dict[str, Callable[[Indices], float]]:
    """Every metric by name, as a function of the indices of the turns over which it is computed."""

    def undefined(_: Indices) -> float:
        return float("nan")

    found: dict[str, Callable[[Indices], float]] = dict.fromkeys(METRICS, undefined)
    found["auroc"] = lambda i: _auroc(scores[i], truth, i)
    found["spearman"] = lambda i: spearman(scores[i], truth.advantage[i])
    if all(one.alternatives for one in predictions):
        rated = [np.array([one.score, *one.alternatives]) for one in predictions]
        centred = scores - [float(row.mean()) for row in rated]
        agreed, total = _concordance(truth, rated)
        found["concordance"] = lambda i: float(agreed[i].sum() / total[i].sum()) if total[i].any() else float("nan")
        found["auroc_centred"] = lambda i: _auroc(centred[i], truth, i)
    if scores.min() >= 0.0 and scores.max() <= 1.0:
        found["brier"] = lambda i: brier_score(scores[i], truth.q[i])
        found["ece"] = lambda i: expected_calibration_error(scores[i], truth.q[i])
    recalibrated = cross_fitted(scores, truth.q, truth.cluster)
    if not np.isnan(recalibrated).any():
        found["brier_recalibrated"] = lambda i: brier_score(recalibrated[i], truth.q[i])
        found["ece_recalibrated"] = lambda i: expected_calibration_error(recalibrated[i], truth.q[i])
    return found


def _auroc(scores: Floats, truth: _Truth, turns: Indices) -> float:
    labelled = truth.labelled[turns]
    return auroc(np.round(scores[labelled], 12), truth.good[turns][labelled])


def _concordance(truth: _Truth, rated: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Σ ΔQ over the correctly ranked pairs of each turn, ties counting half, and over all its pairs; float64 (N,) each."""
    agreed, total = np.zeros(len(rated)), np.zeros(len(rated))
    for (turn, better, worse), weight in zip(truth.pairs.tolist(), truth.weight.tolist(), strict=True):
        difference = round(float(rated[turn][better] - rated[turn][worse]), 12)
        agreed[turn] += weight * (0.5 if difference == 0 else float(difference > 0))
        total[turn] += weight
    return agreed, total


def score_document(
    turns: Sequence[CreditTurn], predictions: Sequence[Prediction], *, resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Scores of the predictions and of all baselines, by environment and as the mean over environments.

    Returns:
        Plain JSON values: "envs", facts of each environment; "rows", method -> environment -> metric -> [value, low, high]
        (95 % interval over tasks) or None.
    """
    envs = list(dict.fromkeys(turn.env for turn in turns))
    methods = {"predictions": predictions, **{name: baseline(name, turns) for name in ("random", *BASELINES)}}
    chosen = {env: [i for i, turn in enumerate(turns) if turn.env == env] for env in envs}
    rows = dict[str, Any]()
    for method, rated in methods.items():
        found = {
            env: score_env([turns[i] for i in indices], [rated[i] for i in indices], resamples=resamples)
            for env, indices in chosen.items()
        }
        if len(envs) > 1:
            found["mean"] = {name: np.mean([found[env][name] for env in envs], axis=0) for name in METRICS}
        rows[method] = {env: {name: _interval(of_env[name]) for name in METRICS} for env, of_env in found.items()}
    return {
        "threshold": THRESHOLD,
        "envs": {env: _facts([turns[i] for i in indices]) for env, indices in chosen.items()},
        "rows": rows,
    }


def _interval(values: Floats) -> list[float] | None:
    if np.isnan(values[0]):
        return None
    low, high = percentile_interval(values[1:])
    return [round(float(value), 6) for value in (values[0], low, high)] if low == low else None


def _facts(turns: Sequence[CreditTurn]) -> dict[str, Any]:
    """The amount and the noise of an environment's data."""
    truth, forks = _truth(turns), np.array([turn.forks for turn in turns])
    forked = [turn for turn in turns if turn.forks]
    halves = np.array([[q - v for q, v in zip(turn.taken.halves, turn.v_halves, strict=True)] for turn in forked])
    split = reliability(halves) if len(forked) > 1 else float("nan")
    return {
        "turns": len(turns),
        "tasks": len(set(truth.cluster.tolist())),
        "exact": len(turns) - len(forked),
        "good": int(truth.good.sum()),
        "bad": int((truth.labelled & ~truth.good).sum()),
        "pairs": len(truth.weight),
        "reliability": None if np.isnan(split) else round(split, 4),
        "least_brier": round(least_brier_score(truth.q, forks), 6),
    }
