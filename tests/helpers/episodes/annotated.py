"""Episodes with annotations, and with a critic's values of tokens."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from creditflow.wrappers.trajectory import Tokens, Trajectory


def with_annotations(trajectory: Trajectory, **columns: list[float]) -> Trajectory:
    """Add annotations: T numbers for the turns, or T + 1 before and after them; "__" in a name is a dot."""
    turns = list(trajectory.turns)
    for name, numbers in columns.items():
        name = name.replace("__", ".")
        for t, turn in enumerate(turns):
            values = {**turn.values, name: numbers[t]}
            if len(numbers) == len(turns) + 1:
                values[f"{name}.next"] = numbers[t + 1]
            turns[t] = replace(turn, values=values)
    return replace(trajectory, turns=tuple(turns))


def with_tokens(
    trajectory: Trajectory, values: list[float], *, observed: int = 2, sampled: int = 3, inside: float | None = None
) -> Trajectory:
    """Add tokens, and a critic's value before every turn and after the last (T + 1 numbers).

    Args:
        trajectory: a trajectory of T turns.
        values: value before every turn and after the last.
        observed, sampled: number of observation tokens and of model tokens in each turn.
        inside: value of the tokens of a turn after its first model token; default the value of the turn.
    """
    n = len(trajectory.turns)
    mask = np.tile([False] * observed + [True] * sampled, n)
    numbers = np.array([v if inside is None else inside for v in values[:-1] for _ in range(observed + sampled)])
    numbers[observed :: observed + sampled] = values[:-1]
    turns = tuple(
        replace(turn, values={"value.critic": a, "value.critic.next": b})
        for turn, (a, b) in zip(trajectory.turns, pairwise(values), strict=True)
    )
    tokens = Tokens(
        np.zeros(len(mask), np.int32), mask, np.zeros(len(mask), np.float32),
        np.arange(0, len(mask) + 1, observed + sampled, dtype=np.int32),
        values={"value.critic": np.append(numbers, values[-1]).astype(np.float32)},
    )  # fmt: skip
    return replace(trajectory, turns=turns, tokens=tokens)
