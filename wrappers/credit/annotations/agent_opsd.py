"""AgentOPSD: the outcome advantage of each turn scaled by how a teacher prompted with a skill changes the odds of success."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import Outcome, OutcomeScheme, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["AgentOPSD"]

START_CLAMP: Final = 1e-4  # of V_0, as released
VALUE_CLAMP: Final = 1e-6  # of the later values, as released


@register
@dataclass(frozen=True, kw_only=True)
class AgentOPSD(OutcomeScheme):
    """A_k = A ((1 − λ) + λ m_k) with m_k = clip(1 + b sign(A) z_k, 1 − b, 1 + b), A the group's outcome advantage.

    Δ_k is the sum over turn k's tokens of log π_teacher − log π, where the teacher has the same weights and the skill's
    text before the prompt. It is the annotation "logp.teacher.gap". V_k = sigmoid(logit V_0 + Σ_{j≤k} Δ_j), where V_0
    is the group's mean outcome, q_k = V_k − V_{k−1}, and z_k is the z-score of q over the episode's turns. The sign of
    A is preserved if b and λ are below 1. The only source is the released code. The paper preset is ours, with V_0 from
    success in [0, 1] and no eps. The released code computes V_0 from rewards of 10 per success, so V_0 reaches its
    upper clamp as soon as a tenth of the group succeeds. The z-score makes this nearly harmless.

    Attributes:
        clip: b.
        mix: λ: .5 in the released scripts, 1 in the code's default.
        start: V_0, the group's mean "success", graded "score", or "return" (released code), clamped to [1e-4, 1 − 1e-4].
        std_eps: added to the standard deviations.
    """

    name = "agent_opsd"
    source = (
        "AgentOPSD (arXiv 2608.05987). Released code: ZethWang/AgentOPSD @ 0c478b2, verl/trainer/ppo/opsd_utils.py, "
        "lines 305 to 581"
    )
    verification = "the released code, which was read but not run"
    limitations = (
        "The z-score makes small gaps as large as big ones. The outcome advantage changes by a factor of at most 1 ± "
        "b λ, so a group with equal outcomes is dead, and a trajectory of one turn gets the credit of grpo."
    )
    presets = {"paper": {}, "release": {"start": "return", "std_eps": 1e-6}}
    requires = ("logp.teacher.gap",)
    properties = frozenset(
        {
            "all_fail_zero",
            "branches",
            "keeps_sign",
            "one_member_zero",
            "permutation",
            "scale",
            "stopping_time",
            "ties_zero",
        }
    )
    ranges = {"clip": "[0, 1]", "mix": "[0, 1]", "std_eps": "[0, inf)"}

    clip: float = 0.2
    mix: float = 0.5
    start: Outcome = "success"
    std_eps: float = 0.0

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: a turn lacks the annotation.
        """
        episodes = group.episode_index
        outcome, turn_part = self.outcome_part(group, std_eps=self.std_eps)
        gaps = turn_values(group, "logp.teacher.gap", scheme=self.name)[episodes.stored]
        start = float(np.clip(outcome_scores(group, self.start).mean(), START_CLAMP, 1.0 - START_CLAMP))
        first = episodes.offsets[:-1][np.diff(episodes.offsets) > 0]
        sums = _sums(gaps, episodes.offsets)
        value = np.clip(_sigmoid(np.log(start / (1.0 - start)) + sums), VALUE_CLAMP, 1.0 - VALUE_CLAMP)
        before = np.append(0.0, value[:-1])[: len(value)]
        before[first] = start
        z = normalize(
            value - before, episodes.episode, len(group), std_eps=self.std_eps, std_kind="population",
            magnitude=np.ones(len(value)), quantity="change of the value", rows=episodes.stored,
        )  # fmt: skip
        owned = outcome[episodes.episode]
        scale = np.clip(1.0 + self.clip * np.sign(owned) * z, 1.0 - self.clip, 1.0 + self.clip)
        step = (owned * self.mix * (scale - 1.0))[episodes.own]
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "outcome advantage, scaled by the turn's gap": step,
            },
            rewards=(value - before)[episodes.own],
            diagnostics={"step_advantage": step, "values": value[episodes.own]},
        )


def _sums(x: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64 (M,): cumulative sums within each episode."""
    total = np.cumsum(x)
    start = np.append(0.0, total)[offsets[:-1]]
    sums: NDArray[np.float64] = total - np.repeat(start, np.diff(offsets))
    return sums


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)
