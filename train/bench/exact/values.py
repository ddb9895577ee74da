"""Values, state occupancy, success and gradient of a table policy by dynamic programming.

All of it for one task (``FiniteMDP``) or for several with one policy (``StackedTasks``). Policies are float64 (S, A) tables of
probabilities; functions that take ``(…, S, A)`` evaluate many at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP

__all__ = ["PolicyValues", "evaluate", "policy_gradient", "softmax", "state_occupancy", "success", "visitation"]

if TYPE_CHECKING:  # the stack is built of tasks
    from creditflow.train.bench.learning.stack import StackedTasks

Floats = NDArray[np.float64]
Table: TypeAlias = "FiniteMDP | StackedTasks"


class PolicyValues(NamedTuple):
    """V and Q of one policy, by turns left h.

    Attributes:
        value: float64 (H+1, S+E), V_h(s).
        action_value: float64 (H+1, S, A), Q_h(s, a); row 0 is nan.
    """

    value: Floats
    action_value: Floats

    @property
    def advantage(self) -> Floats:
        """float64 (H+1, S, A), A_h(s, a) = Q_h(s, a) − V_h(s); row 0 is nan."""
        size = self.action_value.shape[1]
        return self.action_value - self.value[:, :size, None]


def evaluate(table: Table, policy: Floats) -> PolicyValues:
    """V^π and Q^π of a policy (S, A) for every number of turns left."""
    value = np.tile(table.values_at_limit, (table.horizon + 1, 1))
    action_value = np.full((table.horizon + 1, *policy.shape), np.nan)
    for h in range(1, table.horizon + 1):
        action_value[h] = _expected(table, value[h - 1][:, None])[:, :, 0]
        value[h, : table.size] = (policy * action_value[h]).sum(axis=1)
    return PolicyValues(value, action_value)


def success(table: Table, policies: Floats) -> Floats:
    """J = V_H(start) of policies (…, S, A); float64 (…), of stacked tasks (…, n).

    This is the expected score, and the success rate where every score is 0 or 1, as in the grids and in Sokoban.
    """
    shape = policies.shape[:-2]
    batch = np.ascontiguousarray(np.moveaxis(policies.reshape(-1, *policies.shape[-2:]), 0, -1))  # (S, A, M)
    value = np.repeat(table.values_at_limit[:, None], batch.shape[2], axis=1)
    for _ in range(table.horizon):
        value[: table.size] = np.einsum("sam,sam->sm", batch, _expected(table, value))
    start: Floats = np.ascontiguousarray(value[table.start].T).reshape((*shape, *np.shape(table.start)))
    return start


def _expected(table: Table, value: Floats) -> Floats:
    """The expected value of the next state: (S+E, M) → (S, A, M)."""
    if table.deterministic:
        return value[table.next_states[:, :, 0]]
    expected: Floats = np.einsum("sak,sakm->sam", table.transition_probs, value[table.next_states])
    return expected


def state_occupancy(table: Table, policy: Floats) -> Floats:
    """float64 (H+1, S): probability of acting in s with h turns left under a policy (S, A); row 0 is 0."""
    occupied = np.zeros((table.horizon + 1, table.size))
    occupied[table.horizon, table.start] = 1.0
    flow, targets = policy[:, :, None] * table.transition_probs, table.next_states.ravel()
    for h in range(table.horizon, 1, -1):
        moved = (occupied[h][:, None, None] * flow).ravel()
        occupied[h - 1] = np.bincount(targets, moved, minlength=len(table.values_at_limit))[: table.size]
    return occupied


def visitation(table: Table, policy: Floats) -> Floats:
    """float64 (S,): expected fraction of turns in each state; sums to 1."""
    turns = state_occupancy(table, policy).sum(axis=0)
    fractions: Floats = turns / turns.sum()
    return fractions


def policy_gradient(table: Table, policy: Floats) -> Floats:
    """float64 (S, A): w(s, a) = Σ_h d_h(s) π(a|s) A_h(s, a), with which ∇ Σ_i J_i = Σ_sa w(s, a) ∇ log π(a|s).

    As Σ_a w(s, a) = 0, it is also the gradient of the softmax table itself.
    """
    advantage = evaluate(table, policy).advantage
    weights: Floats = policy * np.einsum("hs,hsa->sa", state_occupancy(table, policy)[1:], advantage[1:])
    return weights


def softmax(logits: Floats) -> Floats:
    """Softmax along the last axis: float64, the shape of ``logits``."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities
