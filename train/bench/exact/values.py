"""Values, state occupancy, success and gradient of a table policy on a ``FiniteMDP``, by dynamic programming.

Policies are float64 (S, A) tables of probabilities; functions that take ``(…, S, A)`` evaluate many at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP

__all__ = [
    "PolicyValues",
    "evaluate",
    "natural_direction",
    "optimal_action_values",
    "policy_gradient",
    "state_occupancy",
    "success",
    "visitation",
]

Floats = NDArray[np.float64]


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


def _values_at_limit(mdp: FiniteMDP) -> Floats:
    return np.concatenate([mdp.limit_score, mdp.terminal_score])


def evaluate(mdp: FiniteMDP, policy: Floats) -> PolicyValues:
    """V^π and Q^π for every number of turns left.

    Args:
        mdp: task as tables.
        policy: float64 (S, A).
    """
    value = np.empty((mdp.horizon + 1, mdp.size + len(mdp.terminal_score)))
    action_value = np.full((mdp.horizon + 1, *policy.shape), np.nan)
    value[:] = _values_at_limit(mdp)
    for h in range(1, mdp.horizon + 1):
        action_value[h] = (mdp.transition_probs * value[h - 1][mdp.next_states]).sum(axis=2)
        value[h, : mdp.size] = (policy * action_value[h]).sum(axis=1)
    return PolicyValues(value, action_value)


def success(mdp: FiniteMDP, policies: Floats) -> Floats:
    """J = V_H(start) of policies (…, S, A); float64 (…).

    This is the expected score, and the success rate where every score is 0 or 1, as in the grids and in Sokoban.
    """
    shape = policies.shape[:-2]
    batch = np.ascontiguousarray(np.moveaxis(policies.reshape(-1, *policies.shape[-2:]), 0, -1))  # (S, A, B)
    value = np.repeat(_values_at_limit(mdp)[:, None], batch.shape[2], axis=1)
    for _ in range(mdp.horizon):
        if mdp.deterministic:
            after = value[mdp.next_states[:, :, 0]]
        else:
            after = np.einsum("sak,sakb->sab", mdp.transition_probs, value[mdp.next_states])
        value[: mdp.size] = np.einsum("sab,sab->sb", batch, after)
    start: Floats = value[mdp.start].reshape(shape)
    return start


def state_occupancy(mdp: FiniteMDP, policy: Floats) -> Floats:
    """float64 (H+1, S): probability of acting in s with h turns left (row 0 is 0)."""
    occupied = np.zeros((mdp.horizon + 1, mdp.size))
    occupied[mdp.horizon, mdp.start] = 1.0
    targets = mdp.next_states.ravel()
    for h in range(mdp.horizon, 1, -1):
        flow = (occupied[h][:, None, None] * policy[:, :, None] * mdp.transition_probs).ravel()
        occupied[h - 1] = np.bincount(targets, flow, minlength=mdp.size + len(mdp.terminal_score))[: mdp.size]
    return occupied


def visitation(mdp: FiniteMDP, policy: Floats) -> Floats:
    """float64 (S,): expected fraction of turns in each state; sums to 1."""
    turns = state_occupancy(mdp, policy).sum(axis=0)
    fractions: Floats = turns / turns.sum()
    return fractions


def policy_gradient(mdp: FiniteMDP, policy: Floats, exact: PolicyValues | None = None) -> Floats:
    """∇J of the softmax table: float64 (S, A), Σ_h d_h(s) π(a|s) A_h(s, a)."""
    exact = evaluate(mdp, policy) if exact is None else exact
    gradient: Floats = policy * np.einsum("hs,hsa->sa", state_occupancy(mdp, policy)[1:], exact.advantage[1:])
    return gradient


def natural_direction(mdp: FiniteMDP, policy: Floats, exact: PolicyValues | None = None) -> Floats:
    """F⁻¹ ∇J of the softmax table: float64 (S, A), the visit-weighted mean over h of A_h(s, a); 0 where unvisited.

    At a given small KL divergence no direction of the table gains more.
    """
    exact = evaluate(mdp, policy) if exact is None else exact
    occupied = state_occupancy(mdp, policy)[1:]
    total = np.einsum("hs,hsa->sa", occupied, exact.advantage[1:])
    turns = occupied.sum(axis=0)[:, None]
    direction: Floats = np.divide(total, turns, out=np.zeros_like(total), where=turns > 0.0)
    return direction


def optimal_action_values(mdp: FiniteMDP, discount: float, *, tolerance: float = 1e-12) -> Floats:
    """Q*_γ without a turn limit ("efficiency"): float64 (S, A), by value iteration.

    Args:
        mdp: task as tables.
        discount: γ in [0, 1).
        tolerance: largest change of a value at which the iteration stops.
    """
    value = np.concatenate([np.zeros(mdp.size), mdp.terminal_score])
    while True:
        action_value: Floats = discount * (mdp.transition_probs * value[mdp.next_states]).sum(axis=2)
        best = action_value.max(axis=1)
        if np.abs(best - value[: mdp.size]).max(initial=0.0) <= tolerance:
            return action_value / discount if discount else action_value
        value[: mdp.size] = best
