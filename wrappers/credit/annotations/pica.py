"""PiCA: a turn is worth the change of the log-probability of success, which a trained model writes after every turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import short_repr
from creditflow.wrappers.credit.annotations.gae import gae_ragged
from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit, CreditError, Scheme, require_range
from creditflow.wrappers.credit.outcome import answered, outcome_scores
from creditflow.wrappers.records.group import Group

__all__ = ["PiCA"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PiCA(Scheme):
    """Ã_t = Σ_l (γλ)^l δ_{t+l} with δ_t = R_t + γ V_{t+1} − V_t (eq. 13) and R_t = r_t − p_t, plus r_out at the end.

    r_t = γ log f(t) − log f(t−1) (eqs. 6, 7): f(t), the probability of success after turn t, is the turn's annotation
    ``value.pica.next``, f(t−1) its ``value.pica``, f(0) the prior. The shaping sums to log f(T) − log f(0) whatever
    lies between. p_t = λ_p α^(t−3) for t ≥ 3, t from 1 (eq. 11). ``step_rewards`` is r_t
    times its weight, without penalty. The estimate of V is an annotation, ``value.critic``, or 0.

    The released code trains a hazard model, h(t) = 1 − f(t)/f(t−1), and pays 0.3 · (1 − h − 0.55 − p) on searches that
    returned something, −1 in all for an episode without an answer, and on the last token 1.5 · F1, which overwrites
    what the answer's own h would have paid. Its factor of 1.3 instead of 0.3 and its misplaced rewards are defects and
    not followed; its token-level GAE belongs to a trainer with a critic.

    Attributes:
        shaping: "log", or "linear": f(t)/f(t−1) − ``step_baseline``, the released 1 − h(t) − 0.55.
        step_baseline: of the linear shaping.
        log_floor: log f is at least this: f = 0 has no logarithm. −3 keeps one wrong guess from outweighing the outcome.
        final: f after the last turn: the "model"'s; the "outcome", 1 or the floor; or "neutral", log f = 0, with which
            the shaping sums to −log f(0) in every rollout of a task and so changes no optimal policy.
        rewarded_turns: "all", or "searches" only (released): turns with queries that are not the last of an episode with
            an answer.
        step_weight: of r_t − p_t.
        outcome: the outcome reward: its "return" (sum of rewards), "success" or "score".
        outcome_weight: of the outcome.
        unanswered: what an episode earns that did not end with an answer (a limit, a format error): its "outcome" like any other, or "minus_one" and no
            step rewards (released).
        penalty: λ_p ≥ 0, of the third turn; 0 for none.
        penalty_growth: α ≥ 1. Long episodes are beyond what it was made for: 0.3 · 1.5^37 is a million.
        penalty_start_turn: the first turn that pays, counted from 1; among searches if only they are paid.
        discount: γ.
        gae_lambda: λ of the advantage estimate.
        baseline: V: "critic", the annotation ``value.critic`` of the state before each turn; "none"; or "group", where
            there is no critic: V is 0 and the mean of what the other members earned in all is taken from every turn,
            which leaves the expected gradient as it is.
    """

    name = "pica"
    source = (
        "Liu et al. 2026 (PiCA, arXiv 2605.09287) eqs. 3 to 7, 11 to 13; the penalty's numbers are the released ones, "
        "the paper gives ranges; release: novdream/PiCA, reward manager, as intended"
    )
    presets = {
        "paper": {},
        "release": {
            "shaping": "linear", "step_baseline": 0.55, "log_floor": -60.0, "rewarded_turns": "searches", "step_weight": 0.3,
            "outcome": "score", "outcome_weight": 1.5, "unanswered": "minus_one", "penalty_start_turn": 4,
        },
    }  # fmt: skip
    requires = ("value.pica",)
    properties = frozenset({"branches", "permutation", "telescoping"})

    shaping: Literal["log", "linear"] = "log"
    step_baseline: float = 0.0
    log_floor: float = -10.0
    final: Literal["model", "outcome", "neutral"] = "model"
    rewarded_turns: Literal["all", "searches"] = "all"
    step_weight: float = 1.0
    outcome: Literal["return", "success", "score"] = "return"
    outcome_weight: float = 1.0
    unanswered: Literal["outcome", "minus_one"] = "outcome"
    penalty: float = 0.3
    penalty_growth: float = 1.5
    penalty_start_turn: int = 3
    discount: float = 1.0
    gae_lambda: float = 1.0
    baseline: Literal["none", "critic", "group"] = "none"

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "penalty", 0.0, np.inf)
        for name in ("discount", "gae_lambda"):
            require_range(self, name, 0.0, 1.0)
        require_range(self, "log_floor", -np.inf, 0.0, above=True, below=True)
        require_range(self, "penalty_growth", 1.0, np.inf)
        require_range(self, "penalty_start_turn", 1, np.inf)

    @property
    def needs(self) -> tuple[str, ...]:
        """With a critic, its values too."""
        return (*self.requires, "value.critic") if self.baseline == "critic" else self.requires

    @property
    def checked_properties(self) -> frozenset[str]:
        """As declared; discounted differences do not sum to a difference."""
        return super().checked_properties - (frozenset() if self.discount == 1.0 else {"telescoping"})

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: an annotation is missing, not finite or no probability.
        """
        index = group.episode_index  # everything here is per turn of whole episodes: branches begin with their prefix
        before, after = self._log_success(group)
        with np.errstate(over="ignore"):  # a ratio or a penalty beyond float64 is refused by name in ``Credit.of``
            if self.shaping == "log":
                shaped = self.discount * after - before
            else:
                shaped = np.exp(after - before) - self.step_baseline
            paid = self._paid(group)
            penalties = np.where(paid, self._penalties(group, paid), 0.0)
        shaping = self.step_weight * np.where(paid, shaped, 0.0)
        steps = shaping - self.step_weight * penalties
        outcome = self._outcomes(group)
        rewards = steps + np.where(index.last, outcome[index.episode], 0.0)
        total, ends, delta = self._advantages(group, rewards, outcome)
        return Credit.of(
            group,
            outcome=ends,
            step=(total - ends[index.episode])[index.own],
            rewards=shaping[index.own],
            aggregation="trajectory_mean" if self.shaping == "log" else "token_mean",
            diagnostics={
                "relative_gain": np.expm1(after - before)[index.own],
                "log_success": after[index.own],
                "penalty": penalties[index.own],
                "turn_reward": rewards[index.own],
                "delta": delta[index.own],
            },
        )

    def _log_success(self, group: Group) -> tuple[Floats, Floats]:
        """Floored log f before and after every turn of the episodes (M,) each."""
        arrays, index = group.arrays, group.episode_index
        start, success = (turn_values(group, name, scheme="pica") for name in ("value.pica", "value.pica.next"))
        for numbers in (start, success):
            if len(numbers) and not (numbers.min() >= 0.0 and numbers.max() <= 1.0):
                wrong = float(numbers[(numbers < 0.0) | (numbers > 1.0)][0])
                raise CreditError(
                    f"group {group.group_id!r}: value.pica is the probability of success and lies in [0, 1], got {short_repr(wrong)}"
                )
        torn = (start[1:] != success[:-1]) & ~arrays.last[:-1]
        if torn.any():
            at = int(np.flatnonzero(torn)[0])
            raise CreditError(
                f"group {group.group_id!r}: value.pica.next of a turn is {float(success[at])!r} and value.pica of the turn "
                f"after it {float(start[at + 1])!r}: two models' numbers are mixed; annotate the log anew"
            )
        floor = np.exp(self.log_floor)
        before, after = (np.log(np.maximum(numbers, floor))[index.stored] for numbers in (start, success))
        if self.final != "model":
            ended = arrays.success[index.episode[index.last]]
            after[index.last] = 0.0 if self.final == "neutral" else np.where(ended, 0.0, self.log_floor)
        return before, after

    def _paid(self, group: Group) -> NDArray[np.bool_]:
        """bool (M,): turns with a step reward."""
        index = group.episode_index
        paid = np.ones(len(index.stored), np.bool_)
        ended_well = answered(group)[index.episode]
        if self.rewarded_turns == "searches":
            searched = np.fromiter((bool(turn.queries) for turn in group.turns), np.bool_, len(index.own))
            paid = searched[index.stored] & ~(index.last & ended_well)
        return paid & ended_well if self.unanswered == "minus_one" else paid

    def _penalties(self, group: Group, paid: NDArray[np.bool_]) -> Floats:
        """float64 (M,): λ_p α^(t−3) from turn ``penalty_start_turn`` on."""
        index = group.episode_index
        count = np.cumsum(paid) if self.rewarded_turns == "searches" else np.arange(1, len(paid) + 1)
        number = count - np.concatenate([[0], count])[index.offsets[:-1]][index.episode]
        price = np.zeros(len(paid))
        if self.penalty > 0.0:  # what grows beyond float64 is infinite, and no price at all is none
            due = number >= self.penalty_start_turn
            price[due] = self.penalty * np.power(self.penalty_growth, number[due] - 3.0)
        return price

    def _outcomes(self, group: Group) -> Floats:
        """float64 (G,): the weighted outcome reward."""
        scores = outcome_scores(group, self.outcome)
        if self.unanswered == "minus_one":
            scores = np.where(answered(group), scores, -1.0)
        return self.outcome_weight * scores

    def _advantages(self, group: Group, rewards: Floats, outcome: Floats) -> tuple[Floats, Floats, Floats]:
        """Advantages of turns (M,), the outcome's own of trajectories (G,), and temporal differences (M,)."""
        index, size = group.episode_index, len(group)
        values = np.zeros(len(rewards))
        if self.baseline == "critic":
            values = turn_values(group, "value.critic", scheme="pica")[index.stored]
        delta, total = (
            gae_ragged(rewards, values, index.offsets, discount=self.discount, gae_lambda=gae_lambda)
            for gae_lambda in (0.0, self.gae_lambda)
        )
        if self.baseline == "group" and size > 1:
            earned = np.bincount(index.episode, rewards, minlength=size)
            others = (earned.sum() - earned) / (size - 1)
            total, outcome = total - others[index.episode], outcome - others
        return total, outcome, delta
