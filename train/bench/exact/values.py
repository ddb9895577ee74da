"""Exact numbers about a table policy on a ``FiniteMDP``: values, visits, success, gradient, by dynamic programming.

Policies are float64 (S, A) tables of probabilities; functions that take ``(…, S, A)`` work on many at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP

__all__ = [
    "Exact",
    "evaluate",
    "natural_direction",
    "optimal_action_values",
    "policy_gradient",
    "success",
    "visit_shares",
    "visits",
]

Floats = NDArray[np.float64]


class Exact(NamedTuple):
    """Values with h turns left.

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


def _first_values(mdp: FiniteMDP) -> Floats:
    return np.concatenate([mdp.limit_score, mdp.end_score])


def evaluate(mdp: FiniteMDP, policy: Floats) -> Exact:
    """V^π and Q^π for every number of turns left.

    Args:
        mdp: the task.
        policy: float64 (S, A).
    """
    value = np.empty((mdp.horizon + 1, mdp.size + len(mdp.end_score)))
    action_value = np.full((mdp.horizon + 1, *policy.shape), np.nan)
    value[:] = _first_values(mdp)
    for h in range(1, mdp.horizon + 1):
        action_value[h] = (mdp.chance * value[h - 1][mdp.successor]).sum(axis=2)
        value[h, : mdp.size] = (policy * action_value[h]).sum(axis=1)
    return Exact(value, action_value)


def success(mdp: FiniteMDP, policies: Floats) -> Floats:
    """J = V_H(start) of policies (…, S, A); float64 (…)."""
    shape = policies.shape[:-2]
    many = np.ascontiguousarray(np.moveaxis(policies.reshape(-1, *policies.shape[-2:]), 0, -1))  # (S, A, B)
    value = np.repeat(_first_values(mdp)[:, None], many.shape[2], axis=1)
    for _ in range(mdp.horizon):
        if mdp.deterministic:
            after = value[mdp.successor[:, :, 0]]
        else:
            after = np.einsum("sak,sakb->sab", mdp.chance, value[mdp.successor])
        value[: mdp.size] = np.einsum("sab,sab->sb", many, after)
    start: Floats = value[mdp.start].reshape(shape)
    return start


def visits(mdp: FiniteMDP, policy: Floats) -> Floats:
    """float64 (H+1, S): probability of acting in s with h turns left (row 0 is 0)."""
    occupied = np.zeros((mdp.horizon + 1, mdp.size))
    occupied[mdp.horizon, mdp.start] = 1.0
    flat = mdp.successor.ravel()
    for h in range(mdp.horizon, 1, -1):
        flow = (occupied[h][:, None, None] * policy[:, :, None] * mdp.chance).ravel()
        occupied[h - 1] = np.bincount(flat, flow, minlength=mdp.size + len(mdp.end_score))[: mdp.size]
    return occupied


def visit_shares(mdp: FiniteMDP, policy: Floats) -> Floats:
    """float64 (S,): expected share of turns spent in each state; sums to 1."""
    spent = visits(mdp, policy).sum(axis=0)
    shares: Floats = spent / spent.sum()
    return shares


def policy_gradient(mdp: FiniteMDP, policy: Floats, exact: Exact | None = None) -> Floats:
    """∇J of the softmax table: float64 (S, A), Σ_h d_h(s) π(a|s) A_h(s, a)."""
    exact = evaluate(mdp, policy) if exact is None else exact
    gradient: Floats = policy * np.einsum("hs,hsa->sa", visits(mdp, policy)[1:], exact.advantage[1:])
    return gradient


def natural_direction(mdp: FiniteMDP, policy: Floats, exact: Exact | None = None) -> Floats:
    """F⁻¹ ∇J of the softmax table: float64 (S, A), the visit-weighted mean over h of A_h(s, a); 0 where unvisited.

    At a small given KL no direction of the table gains more.
    """
    exact = evaluate(mdp, policy) if exact is None else exact
    occupied = visits(mdp, policy)[1:]
    total = np.einsum("hs,hsa->sa", occupied, exact.advantage[1:])
    spent = occupied.sum(axis=0)[:, None]
    direction: Floats = np.divide(total, spent, out=np.zeros_like(total), where=spent > 0.0)
    return direction


def optimal_action_values(mdp: FiniteMDP, discount: float, *, tolerance: float = 1e-12) -> Floats:
    """Q*_γ without a turn limit ("efficiency"): float64 (S, A), by value iteration.

    Args:
        mdp: the task.
        discount: γ in [0, 1).
        tolerance: largest change of a value at which iteration stops.
    """
    value = np.concatenate([np.zeros(mdp.size), mdp.end_score])
    while True:
        action_value: Floats = discount * (mdp.chance * value[mdp.successor]).sum(axis=2)
        best = action_value.max(axis=1)
        if np.abs(best - value[: mdp.size]).max(initial=0.0) <= tolerance:
            return action_value / discount if discount else action_value
        value[: mdp.size] = best
