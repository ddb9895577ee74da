"""The contract: a function from the turns of a batch, as arrays, to one advantage per turn or per token.

>>> def returns_minus_mean(rows):
...     outcome = np.bincount(rows.trajectory, rows.reward)          # one number per trajectory
...     group = rows.group[rows.first]                               # the group of each trajectory
...     mean = np.bincount(group, outcome) / np.bincount(group)
...     return (outcome - mean[group])[rows.trajectory]

A function needs no import of this package, and must be pure: equal rows, equal advantages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import short_repr
from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.records.group import Group

__all__ = ["EstimatorFunction", "TurnRows", "advantages_of", "rows_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TurnRows:
    """The N turns of a batch in order: group by group, trajectory by trajectory, turn by turn.

    Attributes:
        group: int64 (N,), number of the group, from 0.
        trajectory: int64 (N,), number of the trajectory in the batch, from 0.
        step: int64 (N,), number of the turn in its trajectory, from 0.
        state, next_state: int64 (N,), equal where the turn begins (ends) in the same state of the same group; other groups have
            other numbers.
        action: int64 (N,), equal for equal actions of a group.
        reward: float64 (N,), the environment's reward of the turn.
        valid: bool (N,), whether the action was valid.
        tokens: int64 (N,), number of tokens that the model wrote, at least 1.
        success: bool (T,), whether each trajectory succeeded.
        first: int64 (T,), the first turn of each trajectory.
        n_groups: number of groups.
    """

    group: Ints
    trajectory: Ints
    step: Ints
    state: Ints
    next_state: Ints
    action: Ints
    reward: NDArray[np.float64]
    valid: NDArray[np.bool_]
    tokens: Ints
    success: NDArray[np.bool_]
    first: Ints
    n_groups: int

    @property
    def returns(self) -> NDArray[np.float64]:
        """float64 (T,): sum of the rewards of each trajectory."""
        return np.bincount(self.trajectory, self.reward, minlength=len(self.first)).astype(np.float64)

    @property
    def token_turn(self) -> Ints:
        """int64 (M,): the turn of each of the M tokens."""
        return np.repeat(np.arange(len(self.tokens)), self.tokens)


EstimatorFunction = Callable[[TurnRows], Any]


def rows_of(groups: Sequence[Group], key: Literal["state", "text"] = "state") -> TurnRows:
    """The turns of groups as arrays, with states by this key; trajectories without turns are left out."""
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in TurnRows.__dataclass_fields__ if name != "n_groups"}
    turns = members = states = actions = 0
    for number, group in enumerate(groups):
        arrays, lengths, visits = group.arrays, np.diff(group.arrays.offsets), group.states(key)
        acting = lengths > 0
        first = arrays.offsets[:-1][acting]
        n = len(arrays.reward)
        added = {
            "group": np.full(n, number), "trajectory": members + np.repeat(np.arange(acting.sum()), lengths[acting]),
            "step": np.arange(n) - np.repeat(first, lengths[acting]), "state": states + visits.state,
            "next_state": states + visits.next_state, "action": actions + arrays.action, "reward": arrays.reward,
            "valid": arrays.valid, "tokens": np.maximum(group.token_counts, 1), "success": arrays.success[acting],
            "first": turns + first,
        }  # fmt: skip
        for name, column in added.items():
            columns[name].append(column)
        turns, members = turns + n, members + int(acting.sum())
        states, actions = states + len(visits.keys), actions + len(arrays.actions)
    joined = {name: np.concatenate(arrays) for name, arrays in columns.items()}
    kinds = {"reward": np.float64, "valid": np.bool_, "success": np.bool_}
    for name, column in joined.items():
        joined[name] = column.astype(kinds.get(name, np.int64))
        joined[name].setflags(write=False)
    return TurnRows(**joined, n_groups=len(groups))


def advantages_of(name: str, function: EstimatorFunction, rows: TurnRows) -> tuple[NDArray[np.float64], float]:
    """The advantages of turns: float64 (N,), means over their tokens where the function returns one per token.

    Returns:
        The advantages, and the largest difference between tokens of one turn (0 for one number per turn).

    Raises:
        CreditError: the function fails, or returns anything but N or M finite numbers.
    """
    try:
        returned = function(rows)
    except (Exception, SystemExit) as error:
        raise CreditError(f"{name} cannot score this batch: {type(error).__name__}: {str(error)[:500]}") from error
    if hasattr(returned, "detach"):
        returned = returned.detach().cpu().numpy()
    try:
        values = np.asarray(returned, np.float64)
    except (TypeError, ValueError) as error:
        raise CreditError(f"{name} must return numbers, got {short_repr(returned)}") from error
    n, m = len(rows.reward), int(rows.tokens.sum())
    if values.shape not in ((n,), (m,)):
        raise CreditError(
            f"{name} must return {n} numbers (one per turn) or {m} (one per token), got shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise CreditError(f"{name} returned a number that is not finite, at {int(np.argmin(np.isfinite(values)))}")
    if len(values) == n:
        return values, 0.0
    starts = np.cumsum(rows.tokens) - rows.tokens
    spread = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
    return np.add.reduceat(values, starts) / rows.tokens, float(spread.max(initial=0.0))
