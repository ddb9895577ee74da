"""Scores of tool turns by the success model and by the lexical baselines, and how well they separate pivots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from evidence.pica.lexical import Lexical
from numpy.typing import NDArray

from creditflow.train.annotate.success.labelling import label_log
from creditflow.train.statistics import auroc, calibration_error, cluster_bootstrap
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Features", "ScoredTurns", "auc_verdict", "baseline_data", "calibration_of", "score_turns"]

LEAST_AUC: Final = 0.7
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Features = Callable[[Trajectory, str], Floats]
TurnLabels = Mapping[tuple[str, str], tuple[str, ...]]  # by group and trajectory


@dataclass(frozen=True, slots=True, eq=False)
class ScoredTurns:
    """Scores and labels of tool turns.

    Attributes:
        score: float64 (N,) by name of the model or baseline; higher for pivots.
        pivot: bool (N,), the labels.
        parts: int64 arrays, the indices of the turns of every question.
    """

    score: dict[str, Floats]
    pivot: Bools
    parts: list[NDArray[np.int64]]


def _turn_labels(groups: Sequence[Group]) -> TurnLabels:
    """Labels of the tool turns before the last turn: the last one's result is in no log, and an answer's label is the outcome."""
    labels = label_log(groups).labels
    return {(one.group_id, one.trajectory_id): (*one.turn_labels[:-1], "") for one in labels}


def _labelled_turns(group: Group, turn_labels: TurnLabels) -> Iterator[tuple[Trajectory, list[int], list[bool]]]:
    """Every trajectory with its labelled tool turns, and which of them are pivots."""
    for member in group.trajectories:
        labels = turn_labels.get((group.group_id, member.trajectory_id), ())
        chosen = [t for t, label in enumerate(labels) if label]
        yield member, chosen, [labels[t] == "+" for t in chosen]


def baseline_data(groups: Sequence[Group], features: Features) -> tuple[Floats, Bools]:
    """Features, float64 (N, F), and pivot labels, bool (N,), of the labelled tool turns."""
    turn_labels = _turn_labels(groups)
    rows: list[Floats] = []
    pivots: list[bool] = []
    for group in groups:
        for member, chosen, are_pivots in _labelled_turns(group, turn_labels):
            rows.append(features(member, str(group.task["text"]))[chosen])
            pivots += are_pivots
    return np.concatenate(rows), np.array(pivots)


def score_turns(
    groups: Sequence[Group], annotator: Any, baselines: Mapping[str, tuple[Features, Lexical]]
) -> ScoredTurns:
    """Score the labelled tool turns by the change of log f and by every baseline."""
    from creditflow.train.annotate import annotate

    turn_labels = _turn_labels(groups)
    rated = annotate(groups, annotator)
    scores: dict[str, list[float]] = {name: [] for name in ("model", *baselines)}
    pivots: list[bool] = []
    parts: list[NDArray[np.int64]] = []
    for group in rated:
        first = len(pivots)
        for member, chosen, are_pivots in _labelled_turns(group, turn_labels):
            for name, (features, fitted) in baselines.items():
                scores[name] += fitted.score(features(member, str(group.task["text"])))[chosen].tolist()
            for t in chosen:
                values = member.turns[t].values
                scores["model"].append(_log(values["value.pica.next"]) - _log(values["value.pica"]))
            pivots += are_pivots
        if len(pivots) > first:
            parts.append(np.arange(first, len(pivots)))
    return ScoredTurns({name: np.array(one) for name, one in scores.items()}, np.array(pivots), parts)


def _log(probability: float) -> float:
    return float(np.log(max(probability, 1e-9)))


def auc_verdict(turns: ScoredTurns) -> dict[str, Any]:
    """AUC of every score and the model's lead over the lexical baseline, with 95 % intervals; whether the claim holds."""

    def area(name: str, at: NDArray[np.int64]) -> float:
        return auroc(turns.score[name][at], turns.pivot[at])

    def lead(at: NDArray[np.int64]) -> float:
        return area("model", at) - area("lexical", at)

    every = np.arange(len(turns.pivot))
    rows = {name: (area(name, every), *_interval(turns, partial(area, name))) for name in turns.score}
    rows["lead"] = (lead(every), *_interval(turns, lead))
    holds = rows["model"][1] > LEAST_AUC and rows["lead"][1] > 0.0
    return {"auc_with_95_percent_interval": rows, "holds": bool(holds)}


def _interval(turns: ScoredTurns, statistic: Any) -> tuple[float, float]:
    return cluster_bootstrap(turns.parts, statistic, n_resamples=1000, rng=np.random.default_rng(0))


def calibration_of(groups: Sequence[Group], annotator: Any) -> float:
    """Expected calibration error of f over the start and the end of every turn."""
    from creditflow.train.annotate import annotate

    predicted, succeeded = [], []
    for group in annotate(groups, annotator):
        for member in group.trajectories:
            values = [turn.values for turn in member.turns]
            predicted += [values[0]["value.pica"], *(one["value.pica.next"] for one in values)] if values else []
            succeeded += [member.success] * (len(values) + 1 if values else 0)
    return calibration_error(np.array(predicted), np.array(succeeded))
