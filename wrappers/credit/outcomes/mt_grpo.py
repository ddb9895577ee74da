"""MT-GRPO: outcomes and the rewards of turns, normalised apart; in the released form and in an unbiased one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.to_go import against_others, full_rewards, returns_to_go
from creditflow.wrappers.records.group import Group

__all__ = ["MTGRPO"]

Floats = NDArray[np.float64]


@register
@dataclass(frozen=True, kw_only=True)
class MTGRPO(Scheme):
    """A_it = z(O_i) + α Σ_{k ≥ t} z_k(r_ik): O_i is the reward of the last turn, r_ik that of a turn k before it.

    z is (x − mean) / std over the group. A rollout that has no turn k before its last counts as r_ik = 0 in z_k and gets nothing
    from it. A rollout of one turn gets z of the returns R_i. With two turns these are the numbers of the released code; for more
    turns, over which the sum is ours, further turns subtract further means, which biases the decision to stop.

    The "unbiased" form compares returns to go: A_it = G_it − mean of G_jt over the other rollouts that have a turn t, with
    G_it = O_i + α Σ_{k ≥ t} r_ik, not divided by a deviation. With α = 1 it is ``turn_loo``.

    Attributes:
        form: "released", or "unbiased" (ours).
        turn_weight: α ≥ 0.
        std_eps: added to each standard deviation of the released form.
    """

    name = "mt_grpo"
    source = (
        "MT-GRPO (arXiv 2505.11821). Released code: SiliangZeng/Multi-Turn-RL-Agent @ 7dbdd08, mt_grpo_env_trainer.py"
    )
    credit_needs = "unequal outcomes"
    verification = (
        "the released code, read and worked out by hand (two turns); the unbiased form by enumeration of chains"
    )
    limitations = (
        "The released form subtracts a mean for every turn that a rollout takes, so where turns have negative rewards a longer "
        "rollout gets a bonus, and where they have positive ones a penalty. The unbiased form does not."
    )
    presets = {"paper": {}, "release": {"std_eps": 1e-4}}
    properties = frozenset({"all_fail_zero", "one_member_zero", "permutation", "scale", "ties_zero"})
    ranges = {"turn_weight": "[0, inf)", "std_eps": "[0, inf)"}

    form: Literal["released", "unbiased"] = "released"
    turn_weight: float = 1.0
    std_eps: float = 0.0

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        episodes, rewards = group.episode_index, full_rewards(group)
        last = episodes.last
        if self.form == "unbiased":
            returns = returns_to_go(group, np.where(last, rewards, self.turn_weight * rewards), 1.0)
            step = against_others(group, returns)[episodes.own]
            terms = {"return to go, against the others at this turn": step}
            return Credit.of(group, step=terms, rewards=rewards[episodes.own])
        by_turn = returns_to_go(group, self._turn_scores(group, rewards, last), 1.0)
        return Credit.of(
            group,
            outcome=self._outcome_scores(group, rewards, last),
            step={"rewards of turns, normalised and summed to the end": self.turn_weight * by_turn[episodes.own]},
            rewards=rewards[episodes.own],
        )

    def _turn_scores(self, group: Group, rewards: Floats, last: NDArray[np.bool_]) -> Floats:
        """float64 (M,): z_k of the turns before the last, each among all G rollouts."""
        size, number = group.arrays.size, group.episode_index.number
        table = np.zeros((int(number.max(initial=-1)) + 1, size))
        early = ~last
        table[number[early], group.episode_index.episode[early]] = rewards[early]
        scores = self._scores(table.ravel(), np.repeat(np.arange(len(table)), size), "reward of the turn", group)
        return np.where(last, 0.0, scores.reshape(table.shape)[number, group.episode_index.episode])

    def _outcome_scores(self, group: Group, rewards: Floats, last: NDArray[np.bool_]) -> Floats:
        """float64 (G,): z of the last rewards, or of the returns for rollouts of one turn."""
        episodes, size = group.episode_index, group.arrays.size
        final = np.bincount(episodes.episode[last], rewards[last], minlength=size).astype(np.float64)
        single = np.diff(episodes.offsets) == 1
        one_group = np.zeros(size, np.int64)
        scores = self._scores(final, one_group, "reward of the last turn", group)
        return np.where(single, self._scores(group.arrays.returns, one_group, "return", group), scores)

    def _scores(self, x: Floats, labels: NDArray[np.int64], quantity: str, group: Group) -> Floats:
        rows = -1 - np.tile(np.arange(group.arrays.size), len(x) // max(group.arrays.size, 1))
        return normalize(
            x,
            labels.astype(np.int32),
            int(labels.max(initial=0)) + 1,
            std_eps=self.std_eps,
            quantity=quantity,
            rows=rows,
        )
