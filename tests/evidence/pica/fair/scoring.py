"""How well scores of turns tell the right relation from a wrong one, find pivots, and follow A^π; intervals over questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from evidence.pica.fair.states import ForkedTurn
from evidence.pica.fair.targets import Advantages, advantages, true_correlation
from numpy.typing import NDArray

from creditflow.train.statistics import auroc, cluster_bootstrap

__all__ = ["advantages_of", "pair_accuracy", "verdict"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
RESAMPLES = 1000


def advantages_of(turns: Sequence[ForkedTurn]) -> Advantages:
    """The advantages of forked turns."""
    before, after = (np.array([getattr(turn, name) for turn in turns], np.float64) for name in ("before", "after"))
    return advantages(before, after)


def pair_accuracy(score: Floats) -> float:
    """Fraction of pairs whose right turn has the higher score, ties half; ``score`` is (2P,), right and wrong alternating."""
    right, wrong = score[0::2], score[1::2]
    return float(np.mean((right > wrong) + 0.5 * (right == wrong)))


def verdict(turns: Sequence[ForkedTurn], scores: Mapping[str, Floats], rivals: Sequence[str]) -> dict[str, Any]:
    """All measures of some forked turns, by score; "lead over X" is ``model`` minus X.

    Args:
        turns: pairs (right and wrong alternating) or played turns.
        scores: float64 (N,) by name; "model" is among them.
        rivals: names of the scores that the model is compared with.

    Returns:
        "turns", "questions"; for pairs "pairs", "pivot_pairs" (whose right turn is a pivot), "auc", "pair_accuracy" and "pivot_auc"; else
        "pivots", "harmful" and "pivot_auc" over pivots and other turns; always "correlation" with Â and "true_correlation" with A. Every
        measure is a list (value, low, high) by score, with the leads.
    """
    paired = bool(turns) and turns[0].role != "played"
    found = advantages_of(turns)
    by_question = _clusters(turns)
    facts: dict[str, Any] = {
        "turns": len(turns),
        "questions": len(by_question),
        "mean_value": float(np.mean([t.before for t in turns])),
    }
    right = np.array([turn.role == "right" for turn in turns])
    measures: dict[str, tuple[Callable[[Floats, Indices], float], list[Indices]]] = {}
    if paired:
        pivot_pairs = np.repeat(found.pivot[0::2], 2)
        facts |= {
            "pairs": len(turns) // 2, "pivot_pairs": int(pivot_pairs.sum()) // 2,
            "advantage": {"right": float(found.mean[right].mean()), "wrong": float(found.mean[~right].mean())},
        }  # fmt: skip
        pivots = [part[pivot_pairs[part]] for part in by_question]
        measures = {
            "auc": (lambda s, at: auroc(s[at], right[at]), by_question),
            "pair_accuracy": (lambda s, at: pair_accuracy(s[at]), by_question),
            "pivot_auc": (lambda s, at: auroc(s[at], right[at]), pivots),
        }
    else:
        facts |= {"pivots": int(found.pivot.sum()), "harmful": int(found.harmful.sum())}
        measures = {"pivot_auc": (lambda s, at: auroc(s[at], found.pivot[at]), by_question)}
    measures |= {
        "correlation": (lambda s, at: true_correlation(s[at], _chosen(found, at))[0], by_question),
        "true_correlation": (lambda s, at: true_correlation(s[at], _chosen(found, at))[1], by_question),
    }
    return facts | {name: _table(measure, parts, scores, rivals) for name, (measure, parts) in measures.items()}


def _table(
    measure: Callable[[Floats, Indices], float],
    parts: Sequence[Indices],
    scores: Mapping[str, Floats],
    rivals: Sequence[str],
) -> dict[str, Any]:
    parts = [part for part in parts if len(part)]
    if not parts:
        return {}

    def row(statistic: Callable[[Indices], float]) -> list[float | None]:
        interval = cluster_bootstrap(parts, statistic, n_resamples=RESAMPLES, rng=np.random.default_rng(0))
        values = (statistic(np.concatenate(parts)), *interval)
        return [float(f"{x:.4g}") if np.isfinite(x) else None for x in values]

    def lead(other: Floats, at: Indices) -> float:
        return measure(scores["model"], at) - measure(other, at)

    table = {name: row(partial(measure, score)) for name, score in scores.items()}
    return table | {f"lead over {rival}": row(partial(lead, scores[rival])) for rival in rivals}


def _chosen(found: Advantages, at: Indices) -> Advantages:
    return Advantages(*(values[at] for values in found))


def _clusters(turns: Sequence[ForkedTurn]) -> list[Indices]:
    """The indices of the turns of each question, which are consecutive."""
    starts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(turns)) if a.question != b.question), len(turns)]
    return [np.arange(a, b) for a, b in pairwise(starts)]
