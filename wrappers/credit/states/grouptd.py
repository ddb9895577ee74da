"""GroupTD (ours): estimates state values on the group's state graph by averaging, where GraphGPO uses the shortest path.

A group is treated as an empirical Markov reward process, which gives the value of each state under the policy that
sampled the group. The value is a *mean* backup over observed transitions, pooled over all trajectories that pass
through a state. The shortest path to success enters only as a prior, which is outweighed as counts grow.

G2PO (arXiv 2606.22995, ``g2po``) is the nearest published method. It also values the states of the group's graph and
credits an edge by its temporal difference. There the value is the mean discounted *outcome* of the visits, as in
``gigpo``, without a backup along edges, a horizon or a prior.

``divide_by_success``, ``progress_weight`` and ``merge_test`` (together the default, and without them
``VARIANTS["grouptd_base"]``) are for policies whose parameters are shared by many tasks, where
the weights *between* tasks matter. With the prior ρ γ^d alone, groups with few successes get little credit, while
solved tasks still get credit for shorter paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.base import Credit, CreditError
from creditflow.wrappers.credit.normalize import TIE_TOLERANCE
from creditflow.wrappers.credit.outcome import Outcome, PenaltyScheme, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import MergingScheme, of_nodes, without_contrast
from creditflow.wrappers.credit.states.mean_backup import Backup, values_of
from creditflow.wrappers.credit.states.reward_process import RewardProcess, mean_by_state, together
from creditflow.wrappers.records.group import EpisodeIndex, Group, backward_sums, run_lengths, run_starts

__all__ = ["VARIANTS", "GroupTD", "entry_statistic", "preceding_turns"]

Floats = NDArray[np.float64]
Statistics = dict[str, NDArray[Any]]
_ROUNDING: Final = 1.0 - 1e-9  # so that F does not exceed a round threshold by rounding alone

BASE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "prior": "distance",
        "prior_weight": 3.0,
        "discount": 0.9,
        "td_lambda": 0.3,
        "divide_by_success": False,
        "progress_weight": 0.0,
        "merge_test": 0.0,
    }
)
RELATIVE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **BASE,
        "td_lambda": 0.6,
        "divide_by_success": True,
        "progress_weight": 2.0,
        "progress_count": 8.0,
        "merge_test": 4.0,
    }
)
# both set every option in which they differ, regardless of the defaults
VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {"grouptd_base": BASE, "grouptd_relative": RELATIVE}
)


@register
@dataclass(frozen=True, kw_only=True)
class GroupTD(MergingScheme, PenaltyScheme):
    """c_t = T_t / ρ* + β w(k_t) [γ^d(k′_t) − γ^d(k_t)] with T_t = δ_t + λ(k′_t) T_{t+1} and δ_t = V_{h−1}(k′_t) − V_h(k_t).

    After a trajectory's last turn the first term of δ is R_i. V_h(k) is the value of state k with h turns left, estimated
    from the group's n(k) turns in k:

        V_h(k) = [κ Φ(k) + Σ_{turns u in k} V_{h−1}(k′_u)] / (κ + n(k)),   V_h(k) = Φ(k) where n(k) = 0,
        V_0(k) = 0,   V_h(success of i) = V_h(failure of i) = R_i,
        Φ(k) = ρ γ^d(k),   ρ = (Σ_i R_i + 1) / (G + 2),   d(k) is the number of hops from k to a success along observed edges (γ^d = 0 if there is no path).

    By default ρ* = ρ, β = 2, and λ(k) = .6, or 1 for a key that fails the merge test. With ρ* = 1, β = 0 and no test,
    c_t = δ_t + λ c_{t+1}. A truncated trajectory has no terminal node, so its last transition leads to an open state.
    Graded outcomes are R_i in [0, 1], and V_0(k) is then the mean outcome of the trajectories truncated in k.

    With λ = β = 0 the credit telescopes: Σ_t c_it = [R_i − V_H(k_1)] / ρ*. ``invalid_penalty`` is
    subtracted from the advantage, because there is no normalised score to subtract it from.

    With Markov keys, the weight of the prior, κ/(κ + n), and the weight of progress, w, vanish as G grows. Then E[c |
    s, a] → A^π_h(s, a) for every λ. With division by success the limit is A^π_h / J(π), which gives the gradient of log
    J.

    Two or more rollouts through the same states to the same end have no contrast, and with β > 0 their credit is 0: without
    this, the prior alone would praise their first turns more than their last ones.

    The cost is H sweeps, each over the states whose successors the previous sweep changed. With κ > 0 it is linear in
    the turns of a long episode.

    Attributes:
        horizon: H, the environment's turn limit. 0 uses the longest trajectory of the group, which is the limit as soon
            as one trajectory is truncated, and too short when all end early.
        prior_weight: κ ≥ 0, weight of the prior in turns.
        prior: Φ, which is "distance" (above) or "none" (κ = 0).
        discount: γ, of the prior and of progress.
        td_lambda: λ in [0, 1]. 0 relies on the values of states, 1 on the trajectory's own outcome.
        divide_by_success: ρ* = ρ. A batch of groups then ascends Σ log J instead of Σ J. The direction within each
            group does not change. A group with one success in G gets up to (G + 2)/2 times the weight.
        progress_weight: β ≥ 0, weight of the progress towards success by distance. Unlike the prior it enters the advantage
            only, not the values, where it would favour rarely visited states. A success has γ^d = 1, a failure 0.
        progress_count: ω > 0 in w(k) = ω / (ω + n(k)).
        merge_test: F* ≥ 0, or 0 for no test. λ is 1 for turns that lead to a key in which the next δ depends on how the
            key was entered, F > F* (``entry_statistic``), because the key probably merges states. The test works in
            stochastic environments too.
        form: "horizon" (above), or "stationary", with one value per state and truncated trajectories that end with
            their outcome.
    """

    name = "grouptd"
    source = (
        "our own, certainty-equivalent policy evaluation on the group's graph with a shortest-path prior. The "
        "nearest published method is G2PO (arXiv 2606.22995), whose values are mean outcomes of visits"
    )
    credit_needs = "a success"
    verification = "exact values (the scheme is ours)"
    limitations = "The prior treats the shortest observed path as the best one."
    presets = {"paper": {}}
    properties = frozenset({"all_fail_zero", "batch_permutation", "one_member_zero", "permutation", "scale", "shift"})
    ranges = {
        **dict.fromkeys(("horizon", "prior_weight", "progress_weight", "merge_test"), "[0, inf)"),
        "progress_count": "(0, inf)",
        "discount": "[0, 1]",
        "td_lambda": "[0, 1]",
    }

    outcome: Outcome = "score"
    horizon: int = 0
    prior_weight: float = 3.0
    prior: Literal["distance", "none"] = "distance"
    discount: float = 0.9
    td_lambda: float = 0.6
    divide_by_success: bool = True
    progress_weight: float = 2.0
    progress_count: float = 8.0
    merge_test: float = 4.0
    form: Literal["horizon", "stationary"] = "horizon"

    def __post_init__(self) -> None:
        """Check every parameter, and that the outcome fits them."""
        super().__post_init__()
        if self.outcome == "return" and self.divide_by_success:
            raise ConfigError(
                "grouptd: divide_by_success, on by default, needs outcome='score' or 'success', in [0, 1]"
            )

    @property
    def checked_properties(self) -> frozenset[str]:
        """Properties that hold with these parameters."""
        broken = set()
        gained = frozenset() if self.progress_weight else {"telescoping"}
        if self.outcome == "return":
            broken |= {"scale", "shift"}
        if self.invalid_penalty:
            broken.add("all_fail_zero")
        return (self.properties | gained) - broken

    @property
    def couples_groups(self) -> bool:
        """Each group is scored as if it were alone; a batch only saves time."""
        return False

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: a trajectory is longer than ``horizon``.
        """
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups, small ones together."""
        processes = together(list(map(self._process, groups)), alone=self.form == "stationary")
        return [credit for members, process in processes for credit in self._assign(groups[members], process)]

    def _assign(self, groups: Sequence[Group], process: RewardProcess) -> Iterator[Credit]:
        hops = self._hops(process)
        after, before, values = self._around(self._backup(process, hops), process)
        delta = np.where(process.terminal | process.truncated, process.outcome[process.trajectory], after) - before
        factor, statistics = self._factor(groups, process, delta)
        scale = process.by_turn(process.success_rate) if self.divide_by_success else 1.0
        progress = self._progress(process, hops)
        steps = backward_sums(delta, process.offsets, factor[process.following]) / scale
        contrast = np.repeat([self._has_contrast(group) for group in groups], np.diff(process.turns))
        steps, progress = np.where(contrast, steps, 0.0), np.where(contrast, progress, 0.0)
        rewards = np.where(contrast, delta / scale, 0.0) + progress
        bounds = pairwise(process.states.tolist()), pairwise(process.turns.tolist())
        for group, (first_state, last_state), (first, last) in zip(groups, *bounds, strict=True):
            yield Credit.of(
                group,
                step={
                    "temporal differences to go": steps[first:last],
                    "progress towards a success": progress[first:last],
                    "penalty": -self.penalties(group),
                },
                rewards=rewards[first:last],
                aggregation="trajectory_mean",
                diagnostics={
                    "value_before": before[first:last],
                    "value_after": after[first:last],
                    **of_nodes(
                        group.states(self.key).keys,
                        values=values[first_state:last_state],
                        **{name: x[first_state:last_state] for name, x in statistics.items()},
                    ),
                },
            )

    def _has_contrast(self, group: Group) -> bool:
        """Whether the group's turns get credit; without progress they always do, because credit then telescopes."""
        states, outcome = self.states(group), outcome_scores(group, self.outcome)
        return not self.progress_weight or not without_contrast(group, states, outcome)

    def _factor(self, groups: Sequence[Group], process: RewardProcess, delta: Floats) -> tuple[Floats, Statistics]:
        """float64 (K,): λ(k), and the statistics that it depends on, for the diagnostics."""
        pair = process.pairs(np.concatenate([group.arrays.action for group in groups]))
        statistics: Statistics = {"conflicted": process.conflicted(pair)}
        factor = np.full(process.size, self.td_lambda)
        if self.merge_test:
            preceding = preceding_turns(
                EpisodeIndex.joined([group.episode_index for group in groups]), process.trajectory
            )
            statistics["entry_f"] = entry_statistic(
                process.state, pair, preceding, delta, process.size, unit=process.unit
            )
            factor[statistics["entry_f"] > self.merge_test] = 1.0
        return factor, statistics

    def _progress(self, process: RewardProcess, hops: Floats) -> Floats:
        """float64 (N,): β w(k) [γ^d(k′) − γ^d(k)]."""
        if not self.progress_weight:
            return np.zeros(len(process.state))
        visits = np.bincount(process.state, minlength=process.size)
        weight = self.progress_weight * self.progress_count / (self.progress_count + visits)
        progress: Floats = weight[process.state] * process.increase(by_distance(hops, self.discount))
        return progress

    def _process(self, group: Group) -> RewardProcess:
        states = self.states(group)
        longest = int((group.first_turns + np.diff(group.arrays.offsets)).max(initial=0))
        if self.horizon and longest > self.horizon:
            raise CreditError(
                f"group {group.group_id!r} has a trajectory of {longest} turns, more than horizon={self.horizon}; set the "
                "environment's turn limit, or 0 for the longest trajectory of each group"
            )
        outcome, stationary = outcome_scores(group, self.outcome), self.form == "stationary"
        return RewardProcess.of(group, states, outcome, self.horizon or longest, stationary=stationary)

    def values(self, group: Group, state: NDArray[np.integer[Any]], left: NDArray[np.integer[Any]]) -> Floats:
        """float64 (Q,): V_h(k) of any pairs (k, h): indices of the group's states, and turns left in [0, H]."""
        return values_of(self.backup(group), state, left, stationary=self.form == "stationary")

    def _around(self, backup: Backup, process: RewardProcess) -> tuple[Floats, Floats, Floats]:
        """Values after and before all turns (N,), and of all states at the horizon (K,)."""
        turns_left = process.turns_left
        state = np.concatenate([process.following, process.state, np.arange(process.size)])
        horizons = np.concatenate([turns_left - 1, turns_left, process.by_state(process.horizons)])
        values = values_of(backup, state, horizons, stationary=self.form == "stationary")
        n = len(turns_left)
        return values[:n], values[n : 2 * n], values[2 * n :]

    def backup(self, group: Group) -> Backup:
        """Return the mean backup of the group."""
        process = self._process(group)
        return self._backup(process, self._hops(process))

    def _hops(self, process: RewardProcess) -> Floats:
        """float64 (K,): d(k), or inf everywhere if nothing depends on it."""
        needed = self.progress_weight or self.prior != "none"
        return process.hops() if needed else np.full(process.size, np.inf)

    def _backup(self, process: RewardProcess, hops: Floats) -> Backup:
        source, target, count = process.transitions()
        ends, outcome = process.terminal, process.outcome[process.trajectory]
        return Backup(
            source=source,
            target=target,
            transitions=count,
            ends=np.bincount(process.state[ends], minlength=process.size).astype(np.float64),
            outcome=np.bincount(process.state[ends], outcome[ends], minlength=process.size).astype(np.float64),
            prior_weight=0.0 if self.prior == "none" else self.prior_weight,
            prior=self._prior(process, hops),
            start=mean_by_state(process.following[process.truncated], outcome[process.truncated], process.size),
            horizon=process.horizon,
        )

    def _prior(self, process: RewardProcess, hops: Floats) -> Floats:
        """float64 (K,): Φ."""
        if self.prior == "none":
            return np.zeros(process.size)
        prior: Floats = process.by_state(process.success_rate) * by_distance(hops, self.discount)
        return prior


def preceding_turns(episodes: EpisodeIndex, trajectory: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64 (N,): the stored turn before each turn (of an ancestor for a branch's first one), or −1 at the start of an episode.

    Args:
        episodes: the full episodes of the group.
        trajectory: int32 (N,), the trajectory that stores each turn.
    """
    inner = episodes.own > episodes.offsets[trajectory]
    return np.where(inner, episodes.stored[episodes.own - inner], -1)


def entry_statistic(
    state: NDArray[np.int32],
    pair: NDArray[np.int64],
    preceding: NDArray[np.int64],
    difference: Floats,
    size: int,
    *,
    unit: Floats,
) -> Floats:
    """F statistic of a one-way analysis of variance by key: its entries, grouped by the preceding (key, action) pair.

    Let x be the temporal difference of the turn after an entry, n the number of entries of a key, m the number of preceding
    pairs, n_e the entries from pair e, and x̄ and x̄_e the means:

        F = [Σ_e n_e (x̄_e − x̄)² / (m − 1)] / [Σ (x − x̄_e)² / (n − m)]

    In a Markov key x does not depend on the pair, and F is near 1, whether or not the environment is deterministic. The
    first turns of episodes do not count as entries.

    Args:
        state: int32 (N,), the key before each turn.
        pair: int64 (N,), number of each turn's (key, action) pair.
        preceding: int64 (N,), the turn before each turn, or −1 if there is none.
        difference: float64 (N,), δ of each turn.
        size: K.
        unit: the largest absolute value. Deviations below 1e-9 of it are rounding errors.

    Returns:
        float64 (K,): F. It is 0 if all x are equal, or if it is undefined (m < 2 or n = m), and inf if they differ
        between pairs only.
    """
    entered = (preceding >= 0).nonzero()[0]
    by = pair[preceding[entered]]
    code = state[entered].astype(np.int64) * (int(pair.max(initial=0)) + 1) + by
    order = np.argsort(code, kind="stable")
    code, key, x = code[order], state[entered][order], difference[entered][order]
    if not len(x):
        return np.zeros(size)
    first = run_starts(code)
    count = run_lengths(first, len(x))
    mean = np.add.reduceat(x, first) / count
    keys = key[first]
    n, m = np.bincount(key, minlength=size), np.bincount(keys, minlength=size)
    centre = np.bincount(key, x, minlength=size) / np.maximum(n, 1)
    between = np.bincount(keys, count * (mean - centre[keys]) ** 2, minlength=size) / np.maximum(m - 1, 1)
    within = np.bincount(key, (x - np.repeat(mean, count)) ** 2, minlength=size) / np.maximum(n - m, 1)
    differs = (m >= 2) & (n > m) & (between > (TIE_TOLERANCE * unit) ** 2)
    constant = within <= (TIE_TOLERANCE * unit) ** 2
    ratio = _ROUNDING * between / np.where(constant, 1.0, within)
    return np.where(differs, np.where(constant, np.inf, ratio), 0.0)


def by_distance(hops: Floats, discount: float) -> Floats:
    """γ^d, and 0 where no success can be reached.

    >>> by_distance(np.array([0.0, 1.0, 2.0, np.inf]), 0.5)
    array([1.  , 0.5 , 0.25, 0.  ])
    """
    reachable = np.isfinite(hops)
    return np.where(reachable, discount ** np.where(reachable, hops, 0.0), 0.0)
