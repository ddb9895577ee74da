"""Positive and negative controls: exact credit, and corrupted credit.

``oracle_adv`` is A^π itself, ``shuffled(X)`` is X's credit permuted within each rollout, ``flipped(X)`` its negative. The control that reads no states is the
scheme ``stateless``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.exact.values import PolicyValues, evaluate
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.credit.base import Aggregation
from creditflow.wrappers.records.group import Group

__all__ = ["CreditFunction", "ExactEvaluator", "IndexedTurns", "flipped", "oracle_adv", "shuffled"]

Floats = NDArray[np.float64]
CreditFunction = Callable[[Group], Credit]  # ``assign`` of a scheme, or a control


class IndexedTurns(NamedTuple):
    """A group's turns as indices into the tables of a ``FiniteMDP``; each (N,).

    Attributes:
        state, next_state: indices of the states.
        action: index of the action; −1 for an invalid one.
        left: turns left before the turn, this one included.
    """

    state: NDArray[np.int64]
    next_state: NDArray[np.int64]
    action: NDArray[np.int64]
    left: NDArray[np.int64]


class ExactEvaluator:
    """Exact values of one policy on one task.

    Args:
        mdp: task as tables.
        policy: float64 (S, A), the policy that sampled the rollouts.
    """

    def __init__(self, mdp: FiniteMDP, policy: Floats) -> None:
        self.mdp, self.policy = mdp, policy

    @cached_property
    def exact(self) -> PolicyValues:
        """V^π and Q^π."""
        return evaluate(self.mdp, self.policy)

    @cached_property
    def advantage(self) -> Floats:
        """float64 (H+1, S, A), A^π."""
        return self.exact.advantage

    @property
    def success(self) -> float:
        """J, the exact success rate, in [0, 1]."""
        return float(self.exact.value[self.mdp.horizon, self.mdp.start])

    def index_turns(self, group: Group) -> IndexedTurns:
        """A group's turns as indices into the tables; invalid actions get index −1.

        Raises:
            DataError: the log has a state or an action that the task lacks, or a rollout has more turns than the limit.
        """
        arrays = group.arrays
        names = {text: i for i, text in enumerate(self.mdp.actions)}
        unknown = [text for text in arrays.actions if text not in names]
        action = np.array([names.get(text, -1) for text in arrays.actions], np.int64)[arrays.action]
        if unknown and arrays.valid[action < 0].any():
            raise DataError(
                f"group {group.group_id!r}: {short_repr(unknown[0])} is not an action of task {self.mdp.name}"
            )
        action = np.where(arrays.valid, action, -1)
        if isinstance(group, ArrayGroup) and group.mdp is self.mdp:
            return IndexedTurns(group.number.astype(np.int64), group.next_number.astype(np.int64), action, group.left)
        missing = [key for key in arrays.states.keys if key not in self.mdp.index]
        if missing:
            raise DataError(f"group {group.group_id!r}: {missing[0]!r} is not a state of task {self.mdp.name}")
        number = np.array([self.mdp.index[key] for key in arrays.states.keys], np.int64)
        elapsed = np.arange(len(action)) - arrays.offsets[arrays.trajectory] + group.first_turns[arrays.trajectory]
        turns_left = self.mdp.horizon - elapsed
        if (turns_left < 1).any():
            raise DataError(f"group {group.group_id!r} has rollouts of more than {self.mdp.horizon} turns")
        return IndexedTurns(number[arrays.state], number[arrays.next_state], action, turns_left)


def oracle_adv(evaluator: ExactEvaluator) -> CreditFunction:
    """A^π_h(s, a) of each turn; 0 for invalid actions."""

    def assign(group: Group) -> Credit:
        state, _, action, turns_left = evaluator.index_turns(group)
        step = np.where(action >= 0, evaluator.advantage[turns_left, state, action], 0.0)
        return _credit(group, step)

    return assign


def shuffled(method: CreditFunction, rng: np.random.Generator) -> CreditFunction:
    """The method's credit permuted within each rollout: its sum per rollout is unchanged, the assignment to turns is random."""

    def assign(group: Group) -> Credit:
        credit = method(group)
        order = np.lexsort((rng.random(len(credit.flat_advantages)), group.arrays.trajectory))
        return _credit(group, credit.flat_advantages[order], credit.flat_loss_mask[order], credit.aggregation)

    return assign


def flipped(method: CreditFunction) -> CreditFunction:
    """The negative of the method's credit."""

    def assign(group: Group) -> Credit:
        credit = method(group)
        return _credit(group, -credit.flat_advantages, credit.flat_loss_mask, credit.aggregation)

    return assign


def _credit(
    group: Group, step: Floats, loss_mask: NDArray[np.bool_] | None = None, aggregation: Aggregation = "token_mean"
) -> Credit:
    return Credit.of(group, step=step, loss_mask=loss_mask, aggregation=aggregation)
