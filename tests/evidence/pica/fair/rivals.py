"""The rivals of the success model: logistic regression on words and on pairs of words, and recency alone.

All read the same condensed episodes as the model. A turn's features: its number, its tool and its recency; the words of the question, of the
turn's mention and of the turn before's ("bag"); and every pair of a word of the question and one of the mention ("pairs"), by which a
linear model can match relations that are worded differently. Features that occur fewer than ``LEAST_COUNT`` times in training are left out: of
names, only syllables' chance repeats remain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from evidence.pica.fair.matched import Recency
from numpy.typing import NDArray

from creditflow.train.statistics import auroc
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["KINDS", "Chosen", "SparseLogistic", "fit_chosen", "turn_features"]

Floats = NDArray[np.float64]
KINDS: Final = ("recency", "bag", "pairs")  # each has the features of those before it
RIDGES: Final = (0.3, 0.1, 0.03, 0.01, 0.001)
LEAST_COUNT: Final = 5
EPOCHS: Final = 6
BATCH: Final = 64
RATE: Final = 0.1
_WORD: Final = re.compile(r"[A-Za-z]+|\d+")


def turn_features(turns: Sequence[Turn], number: int, about: Recency, kind: str) -> list[str]:
    """The names of the features that one turn has.

    Args:
        turns: a condensed episode (see ``mentions``), at least up to the turn.
        number: the turn, from 0.
        about: recency of its action.
        kind: one of ``KINDS``.
    """
    rank = KINDS.index(kind)
    found = ["always", f"turn {number}", f"tool {about.tool}", f"whole {about.whole}"]
    found += [
        f"{name} {value if value < 0 else number - value}"
        for name, value in zip(about._fields[1:5], about[1:5], strict=True)
    ]
    if rank >= 1:
        question, read = _words(turns[0].observation), _words(turns[number].observation)
        before = _words(turns[number - 1].observation) if number else set()
        found += [f"q {w}" for w in question] + [f"m {w}" for w in read] + [f"b {w}" for w in before]
        if rank == 2:
            found += [f"{q} × {w}" for q in question for w in read]
    return found


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


class SparseLogistic:
    """Logistic regression on features by name, by AdaGrad over shuffled minibatches, with a ridge on the features of every row.

    Args:
        rows: the features of every training turn.
        positive: bool (N,), the labels.
        ridge: penalty ½ ridge Σ w² of the features of a row, for each row.
        seed: of the order of the rows.
    """

    def __init__(self, rows: Sequence[Iterable[str]], positive: NDArray[np.bool_], ridge: float, seed: int = 0) -> None:
        counts = Counter(name for row in rows for name in set(row))
        self.index = {name: i for i, name in enumerate(sorted(n for n, c in counts.items() if c >= LEAST_COUNT))}
        coded, target = self._coded(rows), positive.astype(np.float64)
        self.weights, squares = np.zeros(len(self.index)), np.full(len(self.index), 1e-8)
        rng = np.random.default_rng([seed, 31])
        for _ in range(EPOCHS):
            order = rng.permutation(len(coded))
            for first in range(0, len(order), BATCH):
                batch = order[first : first + BATCH].tolist()
                columns, owner = (
                    np.concatenate([coded[i] for i in batch]),
                    np.repeat(np.arange(len(batch)), [len(coded[i]) for i in batch]),
                )
                weights = self.weights[columns]
                odds = np.bincount(owner, weights, minlength=len(batch)).astype(np.float64)
                gap = _sigmoid(odds) - target[batch]
                touched, place = np.unique(columns, return_inverse=True)
                gradient = np.bincount(place, gap[owner] + ridge * weights)
                squares[touched] += gradient**2
                self.weights[touched] -= RATE * gradient / np.sqrt(squares[touched])

    def score(self, rows: Sequence[Iterable[str]]) -> Floats:
        """float64 (N,): log odds."""
        return np.array([self.weights[columns].sum() for columns in self._coded(rows)], np.float64)

    def _coded(self, rows: Sequence[Iterable[str]]) -> list[NDArray[np.int64]]:
        """Indices of the known features of every row."""
        return [
            np.array([i for n in sorted(set(row)) if (i := self.index.get(n)) is not None], np.int64) for row in rows
        ]


class Chosen(NamedTuple):
    """A model with the ridge that validation data chose.

    Attributes:
        model, ridge: the model and its ridge.
        loss, auc: log loss and AUC on validation turns.
    """

    model: SparseLogistic
    ridge: float
    loss: float
    auc: float


def fit_chosen(
    train: Sequence[Iterable[str]],
    positive: NDArray[np.bool_],
    valid: Sequence[Iterable[str]],
    valid_positive: NDArray[np.bool_],
) -> Chosen:
    """The model whose ridge has the least log loss on validation turns."""
    found = []
    for ridge in RIDGES:
        model = SparseLogistic(train, positive, ridge)
        odds = model.score(valid)
        loss = float(np.logaddexp(0.0, np.where(valid_positive, -odds, odds)).mean())
        found.append(Chosen(model, ridge, loss, auroc(odds, valid_positive)))
    return min(found, key=lambda one: (one.loss, one.ridge))


def _sigmoid(x: Floats) -> Floats:
    half: Floats = 0.5 * (1.0 + np.tanh(0.5 * x))
    return half
