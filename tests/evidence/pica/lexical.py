"""The lexical baseline: logistic regression over how words of question, query, result and history overlap.

It reads the same texts as the success model, as sets of words, and is trained on the same labelled turns. It has no
access to the order of words.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.text.entity_matching import phrase_tokens
from creditflow.train.annotate.success.names import by_origin
from creditflow.train.statistics import logistic_fit
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["FEATURES", "Lexical", "overlap_features", "standing_features"]

Floats = NDArray[np.float64]

FEATURES: Final = (
    "share of the query's words in the question", "share of the question's words in the query",
    "share of the query's words in the last observation", "share of the result's words in the question",
    "share of the question's words in the result", "share of the query's words in anything earlier",
    "share of the result's words in anything earlier", "share of the query's words in the result",
    "turn number", "words of the query", "a visit, not a search",
)  # fmt: skip
RIDGE: Final = 1e-3
STANDINGS: Final = {
    unit: i
    for i, unit in enumerate(
        ["new", *(f"{age}{last}" for age in ("asked", *(f"age{k}" for k in range(5)))
                  for last in ("", *(f"last{k}" for k in range(1, 5))))]
    )
}  # fmt: skip


def overlap_features(trajectory: Trajectory, question: str) -> Floats:
    """float64 (T, 11): ``FEATURES`` of every turn; the last turn's result is not in the log and is taken as empty."""
    asked_words = set(phrase_tokens(question))
    earlier: set[str] = set()
    rows = []
    for t, turn in enumerate(trajectory.turns):
        words = phrase_tokens(" ".join(turn.queries) or turn.action)
        query, observed = set(words), set(phrase_tokens(turn.observation))
        last = t + 1 == len(trajectory.turns)
        result = set() if last else set(phrase_tokens(trajectory.turns[t + 1].observation))
        if t:
            earlier |= observed
        rows.append(
            [
                _fraction(query, asked_words), _fraction(asked_words, query), _fraction(query, observed), _fraction(result, asked_words),
                _fraction(asked_words, result), _fraction(query, earlier), _fraction(result, earlier), _fraction(query, result),
                float(t), float(len(words)), float(not turn.queries),
            ]
        )  # fmt: skip
        earlier |= query
    return np.array(rows).reshape(len(rows), len(FEATURES))


def standing_features(trajectory: Trajectory, question: str, plain: frozenset[str]) -> Floats:
    """float64 (T, 11 + 2 · 31): the overlaps, then log(1 + count) of every name class in the action and in the result.

    A name class is one of ``STANDINGS``: the word that ``train/annotate/success/names.py`` writes for a name.

    Args:
        trajectory, question: the episode and the text of its question.
        plain: words that are not names, in lower case.
    """
    rewrite = by_origin(plain, ())
    texts = [(rewrite(turn.observation).split(), rewrite(turn.action).split()) for turn in trajectory.turns]
    rows = np.zeros((len(texts), 2, len(STANDINGS)))
    for t, (_, action) in enumerate(texts):
        result = texts[t + 1][0] if t + 1 < len(texts) else []
        for column, units in enumerate((action, result)):
            for unit in units:
                if unit in STANDINGS:
                    rows[t, column, STANDINGS[unit]] += 1.0
    counts = np.log1p(rows.reshape(len(texts), -1))
    return np.column_stack([overlap_features(trajectory, question), counts])


def _fraction(part: set[str], whole: set[str]) -> float:
    return len(part & whole) / len(part) if part else 0.0


class Lexical:
    """Logistic regression with a small ridge, by Newton's method.

    Args:
        features: float64 (N, F), of the training turns.
        positive: bool (N,), True for pivots.
    """

    def __init__(self, features: Floats, positive: NDArray[np.bool_]) -> None:
        self._mean, self._scale = features.mean(axis=0), features.std(axis=0) + 1e-9
        self._weights = logistic_fit(self._design(features), positive, RIDGE)

    def score(self, features: Floats) -> Floats:
        """float64 (N,): log odds of a pivot."""
        out: Floats = self._design(features) @ self._weights
        return out

    def _design(self, features: Floats) -> Floats:
        return np.column_stack([(features - self._mean) / self._scale, np.ones(len(features))])
