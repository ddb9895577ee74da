"""Scores of a judge on a credit set, by environment: ranking within a state, good against bad turns, calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order
from creditflow.train.credit_set.predictions import Prediction
from creditflow.train.credit_set.reading import CreditTurn, ValuedAction
from creditflow.train.rollout.forks import reliability
from creditflow.train.statistics import auroc, percentile_interval, spearman
from creditflow.train.text_table import text_table

__all__ = [
    "BASELINES",
    "METRICS",
    "THRESHOLD",
    "baseline",
    "brier_score",
    "cross_fitted",
    "expected_calibration_error",
    "isotonic",
    "least_brier_score",
    "score_document",
    "score_env",
    "scores_text",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

BINS: Final = 10


def brier_score(predicted: Floats, rate: Floats) -> float:
    """Expected squared difference between a prediction (N,) and the outcome, 0 or 1, of a continuation.

    If the rate (N,) is the fraction of successes among K continuations, this is the mean over them, without bias.
    """
    return float(np.mean((predicted - rate) ** 2 + rate * (1.0 - rate))) if len(rate) else float("nan")


def least_brier_score(rate: Floats, forks: NDArray[np.int64]) -> float:
    """The Brier score of the true probabilities q, mean q (1 − q); with K continuations, K / (K − 1) corrects the bias."""
    factor = np.where(forks > 1, forks / np.maximum(forks - 1, 1), 1.0)
    return float(np.mean(rate * (1.0 - rate) * factor)) if len(rate) else float("nan")


def expected_calibration_error(predicted: Floats, rate: Floats) -> float:
    """Mean |mean prediction − mean rate| over ten bins with equal numbers of predictions (Naeini et al. 2015)."""
    if not len(rate):
        return float("nan")
    order = np.argsort(predicted, kind="stable")
    bins = [of_bin for of_bin in np.array_split(order, BINS) if len(of_bin)]
    gaps = [abs(float(predicted[of_bin].mean() - rate[of_bin].mean())) * len(of_bin) for of_bin in bins]
    return sum_in_order(gaps) / len(rate)


def isotonic(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Isotonic regression: the non-decreasing least-squares fit, by pooling adjacent violators (Ayer et al. 1955).

    Args:
        x: float64 (N,), N ≥ 1; equal entries share one value.
        y: float64 (N,).

    Returns:
        Sorted distinct x, and the fitted values there; float64 (M,) each.
    """
    places, index, weight = np.unique(x, return_inverse=True, return_counts=True)
    mean = np.bincount(index, y) / weight
    blocks: list[tuple[float, int, int]] = []  # mean, weight, number of places
    for value, count in zip(mean.tolist(), weight.tolist(), strict=True):
        width = 1
        while blocks and blocks[-1][0] >= value:
            before, total, places_before = blocks.pop()
            value = (before * total + value * count) / (total + count)
            count, width = count + total, width + places_before
        blocks.append((value, count, width))
    fitted = np.repeat([block[0] for block in blocks], [block[2] for block in blocks])
    return places, np.asarray(fitted, np.float64)


def cross_fitted(scores: Floats, rate: Floats, cluster: NDArray[np.int64]) -> Floats:
    """Recalibrate scores by ``isotonic``, each half of the clusters with the function fitted on the other half.

    Args:
        scores: float64 (N,), any numbers.
        rate: float64 (N,), success rates.
        cluster: int64 (N,), cluster of each entry; entries of one cluster are in one half.

    Returns:
        float64 (N,); NaN if either half is empty.
    """
    result = np.full(len(scores), np.nan)
    half = cluster % 2 == 0
    if half.any() and (~half).any():
        for members in (half, ~half):
            places, values = isotonic(scores[~members], rate[~members])
            result[members] = np.interp(scores[members], places, values)
    return result


OUT_OF_REACH: Final = -1_000.0  # progress of an action after which success is out of reach


def _progress(turn: CreditTurn, action: ValuedAction) -> float:
    return turn.distance - action.distance if math.isfinite(action.distance) else OUT_OF_REACH


BASELINES: Final[Mapping[str, Callable[[CreditTurn, ValuedAction], float]]] = {
    "constant": lambda _turn, _action: 0.5,
    "turn number": lambda turn, _action: float(turn.turn),
    "turns left": lambda turn, _action: float(turn.turns_left),
    "length of prompt": lambda turn, _action: float(turn.prompt_length),
    "length of action": lambda _turn, action: float(len(action.text)),
    "oracle progress": _progress,
}


def baseline(name: str, turns: Sequence[CreditTurn]) -> list[Prediction]:
    """Predictions of a baseline: one of ``BASELINES``, or "random", uniform random numbers with a fixed seed."""
    if name == "random":
        rng = np.random.default_rng(0)
        return [Prediction(rng.random(), tuple(rng.random(len(turn.alternatives)).tolist())) for turn in turns]
    rate = BASELINES[name]
    predictions = []
    for turn in turns:
        alternatives = tuple(rate(turn, action) for action in turn.alternatives)
        predictions.append(Prediction(rate(turn, turn.taken), alternatives))
    return predictions


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
        for i, action in enumerate(actions):
            for j, earlier in enumerate(actions[:i]):
                difference = action.q - earlier.q
                if abs(difference) > max(
                    TOLERANCE, SIGNIFICANT * float(np.hypot(action.standard_error, earlier.standard_error))
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
    truth, scores = _truth(turns), np.array([prediction.score for prediction in predictions])
    statistics = _statistics(truth, scores, predictions)
    members = [np.flatnonzero(truth.cluster == number) for number in range(int(truth.cluster.max()) + 1)]
    drawn = np.random.default_rng(0).integers(len(members), size=(resamples, len(members)))
    resampled = (np.concatenate([members[i] for i in row]) for row in drawn)
    samples = [np.arange(len(turns)), *resampled]
    return {name: np.array(list(map(statistics[name], samples))) for name in METRICS}


def _statistics(
    truth: _Truth, scores: Floats, predictions: Sequence[Prediction]
) -> dict[str, Callable[[Indices], float]]:
    """Every metric by name, as a function of the indices of the turns over which it is computed."""

    def undefined(_: Indices) -> float:
        return float("nan")

    metrics: dict[str, Callable[[Indices], float]] = dict.fromkeys(METRICS, undefined)
    metrics["auroc"] = lambda i: _auroc(scores[i], truth, i)
    metrics["spearman"] = lambda i: spearman(scores[i], truth.advantage[i])
    if all(prediction.alternatives for prediction in predictions):
        rated = [np.array([prediction.score, *prediction.alternatives]) for prediction in predictions]
        centred = scores - [float(row.mean()) for row in rated]
        agreed, total = _concordance(truth, rated)
        metrics["concordance"] = lambda i: float(agreed[i].sum() / total[i].sum()) if total[i].any() else float("nan")
        metrics["auroc_centred"] = lambda i: _auroc(centred[i], truth, i)
    if scores.min() >= 0.0 and scores.max() <= 1.0:
        metrics["brier"] = lambda i: brier_score(scores[i], truth.q[i])
        metrics["ece"] = lambda i: expected_calibration_error(scores[i], truth.q[i])
    recalibrated = cross_fitted(scores, truth.q, truth.cluster)
    if not np.isnan(recalibrated).any():
        metrics["brier_recalibrated"] = lambda i: brier_score(recalibrated[i], truth.q[i])
        metrics["ece_recalibrated"] = lambda i: expected_calibration_error(recalibrated[i], truth.q[i])
    return metrics


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
    indices_of: dict[str, list[int]] = {env: [] for env in envs}
    for i, turn in enumerate(turns):
        indices_of[turn.env].append(i)
    rows = dict[str, Any]()
    for method, rated in methods.items():
        by_env = {}
        for env, indices in indices_of.items():
            by_env[env] = score_env([turns[i] for i in indices], [rated[i] for i in indices], resamples=resamples)
        if len(envs) > 1:
            by_env["mean"] = _mean_over(list(by_env.values()))
        rows[method] = {env: _intervals(values) for env, values in by_env.items()}
    facts = {}
    for env in envs:
        facts[env] = _facts([turn for turn in turns if turn.env == env])
    return {"threshold": THRESHOLD, "envs": facts, "rows": rows}


def _mean_over(scores: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    return {name: np.mean([of_env[name] for of_env in scores], axis=0) for name in METRICS}


def _intervals(values: Mapping[str, Floats]) -> dict[str, list[float] | None]:
    return {name: _interval(values[name]) for name in METRICS}


def _interval(values: Floats) -> list[float] | None:
    if np.isnan(values[0]):
        return None
    low, high = percentile_interval(values[1:])
    return [round(float(value), 6) for value in (values[0], low, high)] if low == low else None


def _facts(turns: Sequence[CreditTurn]) -> dict[str, Any]:
    """The amount and the noise of an environment's data."""
    truth, forks = _truth(turns), np.array([turn.forks for turn in turns])
    forked = [turn for turn in turns if turn.forks]
    halves = np.array([turn.taken.halves for turn in forked]) - np.array([turn.v_halves for turn in forked])
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


HEADINGS: Final = ("concordance", "AUROC", "AUROC centred", "Spearman", "Brier", "ECE", "Brier recal.", "ECE recal.")
WITH_INTERVAL: Final = METRICS[:4]


def scores_text(document: Mapping[str, Any]) -> str:
    """Format the document of ``score_document`` as text: one table per environment, and their mean."""
    blocks = []
    for env in next(iter(document["rows"].values())):
        rows = []
        for method, of_env in document["rows"].items():
            rows.append([method, *(_cell(of_env[env][name], name in WITH_INTERVAL) for name in METRICS)])
        blocks.append(f"{_title(env, document)}\n{text_table([['scores of', *HEADINGS], *rows], rule_before=1)}")
    threshold = document["threshold"]
    blocks.append(
        "concordance: pairs of actions in one state ranked as Q ranks them, weighted by the difference of Q where it is\n"
        f"beyond noise; AUROC: turns with A > {threshold:g} against A < -{threshold:g}, both beyond noise (centred: minus the "
        "mean score of\nthe state's actions); Spearman: with A; Brier, ECE: scores as probabilities of success, recal.: after "
        "cross-fitted\nisotonic regression. In brackets 95 % intervals over tasks."
    )
    return "\n\n".join(blocks)


def _title(env: str, document: Mapping[str, Any]) -> str:
    if env == "mean":
        return "mean over environments"
    facts = document["envs"][env]
    noise = "" if facts["reliability"] is None else f", split-half reliability of forked A {facts['reliability']:.2f}"
    return (
        f"{env}: {facts['turns']} turns of {facts['tasks']} tasks, {facts['exact']} exact; {facts['good']} good, {facts['bad']} bad "
        f"turns; {facts['pairs']} pairs{noise}; least possible Brier score {facts['least_brier']:.3f}"
    )


def _cell(value: list[float] | None, interval: bool) -> str:
    if value is None:
        return "-"
    mean, low, high = value
    return f"{mean:.3f} [{low:.2f}, {high:.2f}]" if interval else f"{mean:.3f}"
