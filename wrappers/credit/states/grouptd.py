"""GroupTD, our own scheme: policy evaluation on the group's state graph instead of a search for the shortest path.

A group is read as an empirical Markov reward process, which gives the value of each state under the policy that sampled
the group: a *mean* backup over observed transitions, pooled over all trajectories that pass through a state. The shortest
path to success enters only as a prior, which is outweighed as counts grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.credit.backward import backward_sums
from creditflow.wrappers.credit.base import Credit, CreditError
from creditflow.wrappers.credit.outcome import outcome_scores
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.credit.states.mean_backup import Backup, horizon_values, stationary_values
from creditflow.wrappers.credit.states.reward_process import RewardProcess, mean_by_state
from creditflow.wrappers.graphs.state_graph import shortest_distances
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import GOAL, TRUNCATED

__all__ = ["VARIANTS", "GroupTD"]

Floats = NDArray[np.float64]

# named parameter values, as the benchmark's tables call them
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


@dataclass(frozen=True, kw_only=True)
class GroupTD(StateScheme):
    """c_t = δ_t + λ c_{t+1} with δ_t = V_{h−1}(k′_t) − V_h(k_t); after a trajectory's last turn the first term is R_i.

    V_h(k) is the value of state k with h turns left, estimated from the group's n(k) turns in k:

        V_h(k) = [κ Φ(k) + Σ_{turns u in k} V_{h−1}(k′_u)] / (κ + n(k)),   V_h(k) = Φ(k) where n(k) = 0,
        V_0(k) = 0,   V_h(success of i) = V_h(failure of i) = R_i,
        Φ(k) = ρ γ^d(k),   ρ = (Σ_i R_i + 1) / (G + 2),   d(k) hops to a success on observed edges (Φ = 0: no path).

    A truncated trajectory has no terminal node: its last transition leads to an open state. Graded outcomes are R_i in
    [0, 1]; V_0(k) is then the mean outcome of the trajectories truncated in k. With λ = 0 the credit telescopes:
    Σ_t c_it = R_i − V_H(k_1). ``invalid_penalty`` is subtracted from the final advantage, whatever ``penalty_at`` is:
    there is no normalised score to subtract it from.

    Cost: H sweeps, each over the states whose successors the previous one changed; with κ > 0 linear in the turns of a
    long episode.

    Attributes:
        horizon: H, the environment's turn limit. 0 takes the longest trajectory of the group, which is the limit as
            soon as one trajectory is truncated, and too short when all end early.
        prior_weight: κ ≥ 0, weight of the prior in turns.
        prior: Φ: "distance" (above); "share" (mean outcome of the trajectories still running with h turns left, or of
            all trajectories in the stationary form); "none" (κ = 0).
        discount: γ of the distance prior.
        td_lambda: λ in [0, 1]: 0 relies on the values of states, 1 on the trajectory's own outcome.
        deterministic: whether the environment is deterministic: then one action with two different results in one key
            proves that the key merges states, and λ is 1 for turns that lead to such a key.
        form: "horizon" (above), or "stationary": one value per state, truncated trajectories end with their outcome.
        leave_one_out: estimate V for trajectory i from the others (G times the cost). Unbiased with λ = 1.
        add_outcome: add the group-normalised outcome, both parts scaled to root mean square 1 over the turns.
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
            raise ConfigError(
                f"grouptd.horizon must be ≥ 0 (0: the longest trajectory of the group), got {self.horizon}"
            )
        if self.prior_weight < 0.0:
            raise ConfigError(f"grouptd.prior_weight must be ≥ 0, got {short_repr(self.prior_weight)}")
        for name in ("discount", "td_lambda"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"grouptd.{name} must lie in [0, 1], got {short_repr(getattr(self, name))}")

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: a trajectory is longer than ``horizon``.
        """
        process = self._process(group)
        after, before, values = self._around(process, process)
        if self.leave_one_out:
            for i in range(len(process.outcome)):
                own = process.trajectory == i
                after[own], before[own], _ = self._around(process.without(i), process, own)
        delta = np.where(process.terminal | process.truncated, process.outcome[process.trajectory], after) - before
        conflicted = process.conflicted(group.arrays.action)
        factor = np.full(process.size, self.td_lambda)
        if self.deterministic:
            factor[conflicted] = 1.0
        step = backward_sums(delta, group.arrays.offsets, factor[process.following])
        outcome = np.zeros(len(process.outcome))
        if self.add_outcome:
            outcome, _ = self.outcome_part(group)
            outcome = outcome / (_rms(outcome[process.trajectory]) or 1.0)
            step = step / (_rms(step) or 1.0)
        return Credit.of(
            group,
            outcome=outcome,
            step=step - self.score_penalties(group) - self.advantage_penalties(group),
            rewards=delta,
            aggregation="trajectory_mean",
            diagnostics={"values": values, "node_keys": group.states(self.key).keys, "conflicted": conflicted},
        )

    def _process(self, group: Group) -> RewardProcess:
        arrays, states = group.arrays, self.states(group, self.leaders(group))
        before = group.first_turns
        lengths = before + np.diff(arrays.offsets)
        longest = int(lengths.max(initial=0))
        if self.horizon and longest > self.horizon:
            raise CreditError(
                f"group {group.group_id!r} has a trajectory of {longest} turns, more than horizon={self.horizon}; set the "
                "environment's turn limit, or 0 for the longest trajectory of each group"
            )
        horizon = self.horizon or longest
        position = np.arange(len(arrays.reward)) - arrays.offsets[arrays.trajectory] + before[arrays.trajectory]
        end = arrays.end[arrays.trajectory]
        truncated = arrays.last & (end == TRUNCATED)
        return RewardProcess(
            size=len(states.keys),
            state=states.state,
            following=states.next_state,
            trajectory=arrays.trajectory,
            left=horizon - position,
            outcome=outcome_scores(group, self.outcome),
            goal=arrays.last & (end == GOAL),
            terminal=arrays.last if self.form == "stationary" else arrays.last & ~truncated,
            truncated=truncated,
            length=lengths,
            horizon=horizon,
        )

    def values(self, group: Group, state: NDArray[np.integer[Any]], left: NDArray[np.integer[Any]]) -> Floats:
        """float64 (Q,): V_h(k) of any pairs (k, h): indices of the group's states, and turns left in [0, H]."""
        return self._values(self._process(group), state, left)[0]

    def _around(
        self, process: RewardProcess, queried: RewardProcess, own: NDArray[np.bool_] | slice = slice(None)
    ) -> tuple[Floats, Floats, Floats]:
        """Values after and before turns of ``queried``, estimated from ``process``; and of all states at the horizon (K,)."""
        left = queried.left[own]
        state = np.concatenate([queried.following[own], queried.state[own]])
        values, final = self._values(process, state, np.concatenate([left - 1, left]))
        return values[: len(left)], values[len(left) :], final

    def _values(
        self, process: RewardProcess, state: NDArray[np.integer[Any]], left: NDArray[np.integer[Any]]
    ) -> tuple[Floats, Floats]:
        """V of pairs (Q,), and of all states at the horizon (K,); the stationary form ignores the turns left."""
        backup = self._backup(process)
        if self.form == "horizon":
            return horizon_values(backup, state, left)
        value = stationary_values(backup)
        return value[state], value

    def backup(self, group: Group) -> Backup:
        """Return the mean backup of the group."""
        return self._backup(self._process(group))

    def _backup(self, process: RewardProcess) -> Backup:
        ends = process.terminal
        onward = process.state[~ends].astype(np.int64) * process.size + process.following[~ends]
        edge, count = np.unique(onward, return_counts=True)
        source, target = np.divmod(edge, max(process.size, 1))
        outcome = process.outcome[process.trajectory]
        return Backup(
            source=source,
            target=target,
            transitions=count,
            ends=np.bincount(process.state[ends], minlength=process.size).astype(np.float64),
            outcome=np.bincount(process.state[ends], outcome[ends], minlength=process.size).astype(np.float64),
            prior_weight=0.0 if self.prior == "none" else self.prior_weight,
            prior=self._prior(process),
            start=mean_by_state(process.following[process.truncated], outcome[process.truncated], process.size),
            horizon=process.horizon,
            prior_by_turns_left=process.running_mean_outcome()
            if self.prior == "share" and self.form == "horizon"
            else None,
        )

    def _prior(self, process: RewardProcess) -> Floats:
        """float64 (K,): Φ where it does not depend on the turns left."""
        if self.prior != "distance":
            mean = self.prior == "share" and self.form == "stationary"
            return np.full(process.size, process.outcome.mean() if mean else 0.0)
        target = np.where(process.goal, process.size, process.following)
        edge = np.unique(process.state.astype(np.int64) * (process.size + 1) + target)
        source, target = np.divmod(edge, process.size + 1)
        hops = shortest_distances(process.size + 1, source, target, np.ones(len(edge)), np.array([process.size]))[:-1]
        rho = (process.outcome.sum() + 1.0) / (len(process.outcome) + 2.0)
        reachable = np.isfinite(hops)
        return np.where(reachable, rho * self.discount ** np.where(reachable, hops, 0.0), 0.0)


def _rms(x: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(x**2))) if x.size else 0.0
