"""MileGPO: milestones and traps among the group's states, which count where they are progress and beat the alternatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.outcome import OutcomeScheme, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import StateScheme, of_nodes
from creditflow.wrappers.credit.states.reward_process import RewardProcess
from creditflow.wrappers.records.group import EpisodeIndex, Group, distinct
from creditflow.wrappers.records.stop_reasons import TRUNCATED

__all__ = ["MileGPO"]

Floats = NDArray[np.float64]


@register
@dataclass(frozen=True, kw_only=True)
class MileGPO(StateScheme, OutcomeScheme):
    """A = A^E + ω r with r(s, s′) = c₊(s′) [s′ is nearer, the turn beat its alternatives] − c₋(s′) [neither].

    For states on a success, c₊(k) = max(0, (p(k) − ρ) / (1 − ρ)) is the confidence that k is a milestone. For states on
    no success that at least two failures visit, c₋(k) = max(0, (ρ − p(k)) / ρ) is the confidence that k is a trap (the
    end of a failure is not a trap). p(k) = (w + 2ρ) / (n + 2), where w of the n rollouts through k succeed, and ρ = (Σ
    w + 1) / (G + 2) over the group. s′ is nearer if a success is fewer observed transitions away from s′ than from s. A
    turn beats its alternatives if the rollouts that take its transition succeed more often than the others from s. A
    trap counts if they succeed less often and s′ is not nearer. A transition without an observed alternative gets 0.

    Only the abstract of the paper could be read, and no code was found. The abstract describes milestones on successes
    and recurring traps on failures, weights by confidence from outcomes, the test of local progress, and the comparison
    with observed alternatives from the same state. **Every formula and constant above is ours**, so numbers of this
    scheme say little about the paper's.

    Attributes:
        step_weight: ω (ours).
    """

    name = "milegpo"
    source = "MileGPO (arXiv 2608.19803), the abstract only. All formulas and constants are ours"
    second_hand = True
    credit_needs = "a success"
    verification = "the abstract (formulas and constants are ours)"
    limitations = (
        "A turn gets step credit only where rollouts with unequal outcomes left the same state in different ways. The comparison "
        "of alternatives has the variance of few outcomes."
    )
    properties = frozenset(
        {
            "all_fail_zero",
            "branches",
            "one_member_zero",
            "permutation",
            "scale",
            "shift",
            "stopping_time",
            "ties_zero",
        }
    )

    step_weight: float = 1.0

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group)
        episodes, states = group.episode_index, self.states(group)
        process = RewardProcess.of(group, states, outcome_scores(group, "success"), horizon=0, stationary=False)
        source = process.state[episodes.stored]
        target = self._targets(group, process, episodes)
        milestone, trap = self._confidence(group, target, episodes, process.size + 2)
        hops = np.concatenate([process.hops(), [0.0, np.inf]])
        nearer = hops[target] < hops[source]
        lead = _lead(source, target, group.arrays.success[episodes.episode].astype(np.float64))
        rewards = np.where(nearer & (lead > 0.0), milestone[target], 0.0)
        rewards -= np.where(~nearer & (lead < 0.0), trap[target], 0.0)
        step = rewards[episodes.own]
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "milestone or trap": self.step_weight * step,
            },
            rewards=step,
            diagnostics={"step_advantage": step, **of_nodes(states.keys, milestone=milestone, trap=trap)},
        )

    def _targets(self, group: Group, process: RewardProcess, episodes: EpisodeIndex) -> NDArray[np.int64]:
        """int64 (M,): the state that each turn leads to, with K after a success and K + 1 after a failure."""
        end_state = np.where(group.arrays.success, process.size, process.size + 1)[episodes.episode]
        truncated = (group.arrays.end == TRUNCATED)[episodes.episode]
        terminal = episodes.last & ~truncated
        return np.where(terminal, end_state, process.following[episodes.stored]).astype(np.int64)

    def _confidence(
        self, group: Group, target: NDArray[np.int64], episodes: EpisodeIndex, size: int
    ) -> tuple[Floats, Floats]:
        """c₊ and c₋ of every state, float64 (K + 2,) each."""
        success = group.arrays.success
        visit, _ = distinct(episodes.episode.astype(np.int64) * size + target)
        rollout, state = np.divmod(visit, size)
        visits = np.bincount(state, minlength=size)
        wins = np.bincount(state, success[rollout], minlength=size)
        rate = (success.sum() + 1.0) / (len(group) + 2.0)
        probability = (wins + 2.0 * rate) / (visits + 2.0)
        milestone = np.where(wins > 0.0, np.maximum(probability - rate, 0.0) / (1.0 - rate), 0.0)
        recurring = (wins == 0.0) & (visits >= 2)
        recurring[-1] = False  # the end itself is no trap: failing later is as bad as failing at once
        return milestone, np.where(recurring, np.maximum(rate - probability, 0.0) / rate, 0.0)


def _lead(source: NDArray[np.int32], target: NDArray[np.int64], success: Floats) -> Floats:
    """float64 (M,): success rate of the turns along a transition minus that of the other turns from its state (0 without any)."""
    code = source.astype(np.int64) * (int(target.max(initial=0)) + 1) + target
    _, edge = np.unique(code, return_inverse=True)
    taken_count, taken_wins = np.bincount(edge)[edge], np.bincount(edge, success)[edge]
    rest_count, rest_wins = np.bincount(source)[source] - taken_count, np.bincount(source, success)[source] - taken_wins
    rest = np.divide(rest_wins, rest_count, out=np.zeros(len(source)), where=rest_count > 0)
    lead: Floats = np.where(rest_count > 0, taken_wins / np.maximum(taken_count, 1) - rest, 0.0)
    return np.where(np.abs(lead) > 1e-9, lead, 0.0)
