"""Baselines for judges: predictions from trivial features, which a judge must beat, and the oracle's progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from creditflow.train.credit_set.predictions import Prediction
from creditflow.train.credit_set.reading import CreditTurn, ValuedAction

__all__ = ["BASELINES", "baseline"]

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
    return [
        Prediction(rate(turn, turn.taken), tuple(rate(turn, other) for other in turn.alternatives)) for turn in turns
    ]
