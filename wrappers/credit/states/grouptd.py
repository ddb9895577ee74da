"""GroupTD, our own scheme: evaluate the policy on the group's graph instead of searching it for a shortest path.

Read as an empirical Markov reward process, the rollouts of a group say what each state was worth to the policy that
made them: a *mean* backup over observed transitions, pooled over all rollouts that pass through a state. The shortest
way to success enters only as a prior, which counts wash out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.credit.backward import backward_sums
from creditflow.wrappers.credit.base import Credit, CreditError
from creditflow.wrappers.credit.outcome import outcome_scores
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.credit.states.mean_backup import Backup, horizon_values, stationary_values
from creditflow.wrappers.graphs.state_graph import shortest_distances
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, OPEN, TRUNCATED

__all__ = ["VARIANTS", "GroupTD"]

Floats = NDArray[np.float64]

# named settings of the options below, as the benchmark's tables call them
VARIANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "grouptd": {},
        "grouptd_0": {"td_lambda": 0.0},
        "grouptd_6": {"td_lambda": 0.6},
        "grouptd_8": {"td_lambda": 0.8},
        "grouptd_det": {"deterministic": True},
        "grouptd_outcome": {"add_outcome": True},
        "evaluation": {"prior": "none", "td_lambda": 0.0},
        "evaluation_share": {"prior": "share", "prior_weight": 1.0, "td_lambda": 0.0},
        "evaluation_stationary": {"form": "stationary", "prior": "none", "td_lambda": 0.0},
        "leave_one_out": {"leave_one_out": True, "prior": "none", "td_lambda": 1.0},
    }
)


class _Chain(NamedTuple):
    """The group as a Markov reward process. K keys, N turns, G rollouts.

    Attributes:
        size: K.
        state, following: int (N,), keys before and after each turn.
        owner: int (N,), rollout of each turn.
        left: int (N,), turns left before each turn, this one included: H for the first.
        outcome: float64 (G,), R_i.
        goal: bool (N,), turns that ended in success.
        leaves: bool (N,), turns after which nothing follows: they are worth their rollout's outcome at every horizon.
        cut: bool (N,), last turns of rollouts that a limit ended.
        length: int (G,), turns of each rollout, those before a branch's fork included.
        horizon: H.
    """

    size: int
    state: NDArray[np.int32]
    following: NDArray[np.int32]
    owner: NDArray[np.int32]
    left: NDArray[np.int64]
    outcome: NDArray[np.float64]
    goal: NDArray[np.bool_]
    leaves: NDArray[np.bool_]
    cut: NDArray[np.bool_]
    length: NDArray[np.int64]
    horizon: int

    def without(self, rollout: int) -> _Chain:
        """The chain of the other rollouts."""
        kept = self.owner != rollout
        return self._replace(
            state=self.state[kept],
            following=self.following[kept],
            owner=(self.owner[kept] - (self.owner[kept] > rollout)).astype(np.int32),
            left=self.left[kept],
            outcome=np.delete(self.outcome, rollout),
            goal=self.goal[kept],
            leaves=self.leaves[kept],
            cut=self.cut[kept],
            length=np.delete(self.length, rollout),
        )


@dataclass(frozen=True, kw_only=True)
class GroupTD(StateScheme):
    """c_t = δ_t + λ c_{t+1} with δ_t = V_{h−1}(k′_t) − V_h(k_t); after a rollout's last turn the first term is R_i.

    V_h(k) is the value of state k with h turns left, estimated from the n(k) turns that the group took in k:

        V_h(k) = [κ Φ(k) + Σ_{turns u in k} V_{h−1}(k′_u)] / (κ + n(k)),   V_h(k) = Φ(k) where n(k) = 0,
        V_0(k) = 0,   V_h(success of i) = V_h(failure of i) = R_i,
        Φ(k) = ρ γ^d(k),   ρ = (Σ_i R_i + 1) / (G + 2),   d(k) hops to a success on observed edges (Φ = 0: no way).

    A rollout that a limit cut has no end: its last transition leads to an ordinary state. Graded outcomes are R_i in
    [0, 1]; V_0(k) is then the mean outcome of the rollouts that were cut in k. With λ = 0 the credit telescopes:
    Σ_t c_it = R_i − V_H(k_1). Invalid turns pay ``invalid_penalty`` from the finished advantage, wherever
    ``penalty_at`` says: there is no normalised score to take it from.

    Cost: H sweeps over what the sweep before has changed: with κ > 0 linear in the turns of a long walk.

    Attributes:
        horizon: H, the environment's turn limit. 0 takes the longest rollout of the group, which is the limit as soon
            as one rollout was cut by it, and too short when all ended early.
        prior_weight: κ ≥ 0, the weight of the prior in turns.
        prior: Φ: "distance" (above); "share" (the share of outcome among rollouts still running with h turns left,
            the share among all rollouts in the stationary form); "none" (κ is taken as 0).
        discount: γ of the distance prior.
        td_lambda: λ in [0, 1]: 0 trusts the states, 1 the rollout's own outcome.
        deterministic: the environment is: then one action with two different results in one key proves that the key
            merges states, and λ is 1 where a turn arrives in such a key.
        form: "horizon" (above), or "stationary": one value a state, cut rollouts leave the chain with their outcome.
        leave_one_out: V for rollout i comes from the other rollouts (G times the cost). With λ = 1 unbiased.
        add_outcome: the sum with the group-normalised outcome, both scaled to root mean square 1 over the turns.
    """

    name = "grouptd"
    source = "our own: certainty-equivalent policy evaluation on the group's graph with a shortest-path prior"
    presets = {"paper": {}}
    properties = frozenset({"all_fail_zero", "one_member_zero", "permutation", "scale", "shift", "telescoping"})

    outcome: Literal["return", "success", "score"] = "score"
    penalty_at: Literal["score", "advantage"] = "advantage"
    horizon: int = 0
    prior_weight: float = 3.0
    prior: Literal["distance", "share", "none"] = "distance"
    discount: float = 0.9
    td_lambda: float = 0.3
    deterministic: bool = False
    form: Literal["horizon", "stationary"] = "horizon"
    leave_one_out: bool = False
    add_outcome: bool = False

    def __post_init__(self) -> None:
        """Check ranges."""
        super().__post_init__()
        if self.horizon < 0:
            raise ConfigError(f"grouptd.horizon must be ≥ 0 (0: the longest rollout of the group), got {self.horizon}")
        if self.prior_weight < 0.0:
            raise ConfigError(f"grouptd.prior_weight must be ≥ 0, got {short_repr(self.prior_weight)}")
        for name in ("discount", "td_lambda"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"grouptd.{name} must lie in [0, 1], got {short_repr(getattr(self, name))}")

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: a rollout is longer than ``horizon``.
        """
        chain = self._chain(group)
        after, before, values = self._around(chain, chain)
        if self.leave_one_out:
            for i in range(len(chain.outcome)):
                own = chain.owner == i
                after[own], before[own], _ = self._around(chain.without(i), chain, own)
        delta = np.where(chain.leaves | chain.cut, chain.outcome[chain.owner], after) - before
        conflicted = _conflicted(chain, group.arrays.action)
        trace = np.full(chain.size, self.td_lambda)
        if self.deterministic:
            trace[conflicted] = 1.0
        step = backward_sums(delta, group.arrays.offsets, trace[chain.following])
        outcome = np.zeros(len(chain.outcome))
        if self.add_outcome:
            outcome, _ = self.outcome_part(group)
            outcome = outcome / (_rms(outcome[chain.owner]) or 1.0)
            step = step / (_rms(step) or 1.0)
        return Credit.of(
            group,
            outcome=outcome,
            step=step - self.score_penalties(group) - self.advantage_penalties(group),
            rewards=delta,
            aggregation="trajectory_mean",
            diagnostics={"values": values, "node_keys": group.states(self.key).keys, "conflicted": conflicted},
        )

    def _chain(self, group: Group) -> _Chain:
        arrays, states = group.arrays, self.states(group, self.leaders(group))
        before = group.first_turns
        lengths = before + np.diff(arrays.offsets)
        longest = int(lengths.max(initial=0))
        if self.horizon and longest > self.horizon:
            raise CreditError(
                f"group {group.group_id!r} has a rollout of {longest} turns, more than horizon={self.horizon}; give the "
                "environment's turn limit, or 0 for the longest rollout of each group"
            )
        horizon = self.horizon or longest
        place = np.arange(len(arrays.reward)) - arrays.offsets[arrays.trajectory] + before[arrays.trajectory]
        end = arrays.end[arrays.trajectory]
        limited = end == TRUNCATED
        cut = arrays.last & limited
        return _Chain(
            size=len(states.keys),
            state=states.state,
            following=states.next_state,
            owner=arrays.trajectory,
            left=horizon - place,
            outcome=outcome_scores(group, self.outcome),
            goal=arrays.last & (end == GOAL),
            leaves=arrays.last if self.form == "stationary" else arrays.last & ~limited,
            cut=cut,
            length=lengths,
            horizon=horizon,
        )

    def values(self, group: Group, state: NDArray[np.integer[Any]], left: NDArray[np.integer[Any]]) -> Floats:
        """V_h(k), float64 (Q,), of any pairs (k, h): numbers of the group's states, and turns left in [0, H]."""
        return self._values(self._chain(group), state, left)[0]

    def _around(
        self, chain: _Chain, asking: _Chain, own: NDArray[np.bool_] | slice = slice(None)
    ) -> tuple[Floats, Floats, Floats]:
        """Values after and before turns of ``asking``, by ``chain``; and of all states at the horizon (K,)."""
        left = asking.left[own]
        state = np.concatenate([asking.following[own], asking.state[own]])
        found, final = self._values(chain, state, np.concatenate([left - 1, left]))
        return found[: len(left)], found[len(left) :], final

    def _values(
        self, chain: _Chain, state: NDArray[np.integer[Any]], left: NDArray[np.integer[Any]]
    ) -> tuple[Floats, Floats]:
        """V of pairs (Q,), and of all states at the horizon (K,); the turns left are idle in the stationary form."""
        backup = self._backup(chain)
        if self.form == "horizon":
            return horizon_values(backup, state, left)
        value = stationary_values(backup)
        return value[state], value

    def backup(self, group: Group) -> Backup:
        """What the values are means of."""
        return self._backup(self._chain(group))

    def _backup(self, chain: _Chain) -> Backup:
        ends = chain.leaves
        onward = chain.state[~ends].astype(np.int64) * chain.size + chain.following[~ends]
        edge, count = np.unique(onward, return_counts=True)
        source, target = np.divmod(edge, max(chain.size, 1))
        worth = chain.outcome[chain.owner]
        return Backup(
            source=source,
            target=target,
            taken=count,
            ends=np.bincount(chain.state[ends], minlength=chain.size).astype(np.float64),
            outcome=np.bincount(chain.state[ends], worth[ends], minlength=chain.size).astype(np.float64),
            prior_weight=0.0 if self.prior == "none" else self.prior_weight,
            prior=self._prior(chain),
            start=_mean_at(chain.following[chain.cut], worth[chain.cut], chain.size),
            horizon=chain.horizon,
            share=_running_share(chain) if self.prior == "share" and self.form == "horizon" else None,
        )

    def _prior(self, chain: _Chain) -> Floats:
        """Φ where it does not depend on the turns left: float64 (K,)."""
        if self.prior != "distance":
            shared = self.prior == "share" and self.form == "stationary"
            return np.full(chain.size, chain.outcome.mean() if shared else 0.0)
        target = np.where(chain.goal, chain.size, chain.following)
        edge = np.unique(chain.state.astype(np.int64) * (chain.size + 1) + target)
        source, target = np.divmod(edge, chain.size + 1)
        hops = shortest_distances(chain.size + 1, source, target, np.ones(len(edge)), np.array([chain.size]))[:-1]
        rho = (chain.outcome.sum() + 1.0) / (len(chain.outcome) + 2.0)
        found = np.isfinite(hops)
        return np.where(found, rho * self.discount ** np.where(found, hops, 0.0), 0.0)


def _running_share(chain: _Chain) -> Floats:
    """float64 (H+1,): mean outcome of the rollouts that still act with h turns left; before the first does, of those."""
    acting = chain.length > 0
    since = chain.horizon + 1 - chain.length[acting]
    running = np.cumsum(np.bincount(since, minlength=chain.horizon + 1))
    earned = np.cumsum(np.bincount(since, chain.outcome[acting], minlength=chain.horizon + 1))
    first = since.min(initial=chain.horizon)
    share: Floats = (earned / np.maximum(running, 1))[np.maximum(np.arange(chain.horizon + 1), first)]
    return share


def _conflicted(chain: _Chain, action: NDArray[np.int32]) -> NDArray[np.bool_]:
    """bool (K,): one action had two different results in this key."""
    end = np.where(chain.goal, GOAL, np.where(chain.leaves & ~chain.cut, FAILED, OPEN))
    result = chain.following.astype(np.int64) * 4 + end
    did = chain.state.astype(np.int64) * (int(action.max(initial=0)) + 1) + action
    _, first, label = np.unique(did, return_index=True, return_inverse=True)
    differs = result != result[first][label]
    conflicted = np.zeros(chain.size, np.bool_)
    conflicted[chain.state[differs]] = True
    return conflicted


def _mean_at(place: NDArray[np.int32], x: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Mean of x by place, 0 where there is none; float64 (size,)."""
    mean: NDArray[np.float64] = np.bincount(place, x, minlength=size) / np.maximum(
        np.bincount(place, minlength=size), 1
    )
    return mean


def _rms(x: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(x**2))) if x.size else 0.0
