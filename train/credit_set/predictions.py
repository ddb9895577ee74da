"""Predictions of a judge for the turns of a credit set: JSON Lines from any source, read within limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading import checked
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.train.credit_set.reading import CreditTurn

__all__ = ["Prediction", "read_predictions"]

MAX_PREDICTION: Final = 2**20  # characters of a line, which may also hold a judge's reasoning
SHOWN: Final = 3  # number of missing turns that an error lists


class Prediction(NamedTuple):
    """A judge's ratings of one turn; higher is better.

    Attributes:
        score: rating of the action taken.
        alternatives: ratings of the alternatives, in the order of the record; () if they were not rated.
    """

    score: float
    alternatives: tuple[float, ...] = ()


def read_predictions(path: str | Path, turns: Sequence[CreditTurn]) -> list[Prediction]:
    """Read one prediction for each turn, in the order of ``turns``.

    Every line is an object with ``turn_id``, ``score`` and, if the judge rated them, ``alternatives``, a list with one number
    per alternative; other fields are ignored.

    Raises:
        DataError: unknown, repeated or missing turns, a number that is not finite, a wrong number of alternatives, or
            alternatives rated for some turns only; the message names the line.
    """
    expected = {turn.turn_id: turn for turn in turns}
    predictions: dict[str, Prediction] = {}
    for where, line in read_json_lines(path, longest=MAX_PREDICTION):
        if not isinstance(line, dict):
            raise DataError(f"{where}: expected an object with turn_id and score, got {short_repr(line)}")
        name = checked.text(line.get("turn_id"), f"{where}: turn_id")
        if name not in expected:
            raise DataError(
                f"{where}: the credit set has no turn {short_repr(name, 120)}; pass the set that was rated with --credit-set"
            )
        if name in predictions:
            raise DataError(f"{where}: the turn {short_repr(name, 120)} occurs twice")
        count = len(expected[name].alternatives)
        ratings = checked.items(line.get("alternatives", []), f"{where}: alternatives", count)
        if ratings and len(ratings) != count:
            raise DataError(f"{where}: alternatives must have {count} numbers, one per alternative, got {len(ratings)}")
        predictions[name] = Prediction(
            _number(line.get("score"), f"{where}: score"),
            tuple(_number(rating, f"{where}: alternatives") for rating in ratings),
        )
    missing = [name for name in expected if name not in predictions]
    if missing:
        more = ", …" if len(missing) > SHOWN else ""
        raise DataError(
            f"{path}: {len(missing)} of {len(expected)} turns have no prediction: {', '.join(missing[:SHOWN])}{more}"
        )
    if len({bool(prediction.alternatives) for prediction in predictions.values()}) > 1:
        partly = next(name for name in expected if not predictions[name].alternatives)
        raise DataError(f"{path}: alternatives are rated for some turns, but not for {partly}; rate all or none")
    return [predictions[turn.turn_id] for turn in turns]


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{where} must be a finite number, got {short_repr(value)}")
    return float(value)
