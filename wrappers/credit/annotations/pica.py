"""PiCA: the reward of a turn is the change in the log-probability of success that a trained model predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import short_repr
from creditflow.wrappers.credit.annotations.gae import gae_ragged
from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit, CreditError, Scheme
from creditflow.wrappers.credit.outcome import Outcome, answered, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["PiCA"]

Floats = NDArray[np.float64]


@register
@dataclass(frozen=True, kw_only=True)
class PiCA(Scheme):
    """Ã_t = Σ_l (γλ)^l δ_{t+l} with δ_t = R_t + γ V_{t+1} − V_t (eq. 13) and R_t = r_t − p_t, plus r_out at the end.

    In r_t = γ log f(t) − log f(t−1) (eqs. 6, 7), f(t) is the probability of success after turn t. The turn's annotation
    ``value.pica.next`` is f(t), its annotation ``value.pica`` is f(t−1), and f(0) is the prior. The shaping sums to log
    f(T) − log f(0) on every path. p_t = λ_p α^(t−3) for t ≥ 3, t from 1 (eq. 11). ``step_rewards`` is r_t times its
    weight, without penalty. The value V is an annotation, ``value.critic``, or 0.

    The released code trains a hazard model, h(t) = 1 − f(t)/f(t−1). Its reward is 0.3 · (1 − h − 0.55 − p) for searches
    with results, and 1.5 · F1 on the last token, which replaces the reward from the answer's own h. For an episode
    without an answer the reward is −1.5 in total, 1.5 · (−1). Its factor of 1.3 instead of 0.3 and its misplaced
    rewards are defects, which are not reproduced. Its token-level GAE belongs to a trainer with a critic.

    Attributes:
        shaping: "log", or "linear": f(t)/f(t−1) − ``step_baseline``, the released 1 − h(t) − 0.55.
        step_baseline: baseline of the linear shaping.
        log_floor: lower bound of log f, since f = 0 has no logarithm. With −3 one wrong prediction cannot outweigh the
            outcome.
        final: f after the last turn. "model" is the model's prediction, "outcome" (the paper, sec. 4.1) is 1 or, as 0 has no
            logarithm, the floor, and "neutral" is
            log f = 0, with which the shaping sums to −log f(0) in every episode of a task and so preserves optimal
            policies.
        rewarded_turns: "all", or "searches" only (released): turns with queries, except the last turn of an
            episode with an answer.
        step_weight: weight of r_t − p_t.
        outcome: outcome reward: its "return" (sum of rewards), "success" or "score".
        outcome_weight: weight of the outcome.
        unanswered: reward of an episode that ended without an answer (at a limit, by a format error): its "outcome" as
            for any other, or "minus_one": −1 times ``outcome_weight``, without step rewards (released).
        format_reward: added to the outcome of a trajectory all of whose turns could be parsed, and before its weight.
            The paper's outcome is a format reward plus F1, and it does not state the size of the former. The release
            has none.
        penalty: λ_p ≥ 0, penalty of the third turn (0 for none).
        penalty_growth: α ≥ 1. Not meant for long episodes: 0.3 · 1.5^37 is a million.
        penalty_start_turn: first turn with a penalty, counted from 1, and among searches if only they are rewarded.
        discount: γ.
        gae_lambda: λ of the advantage estimate.
        baseline: V. "critic" is the annotation ``value.critic`` of the state before each turn, and "none" is 0. "group"
            needs no critic: V is 0, and the mean total reward of the other trajectories is subtracted from every turn,
            which leaves the expected gradient unchanged.
    """

    name = "pica"
    source = (
        "Liu et al. 2026 (PiCA, arXiv 2605.09287) eqs. 3 to 7 and 11 to 13. The penalty's numbers are those of the "
        "release, because the paper gives ranges. Released code: novdream/PiCA, reward manager, as intended"
    )
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = (
        "Without discount the shaping telescopes: all turns get the outcome minus a baseline, up to the shaping "
        "of the turns before. The penalty grows exponentially from the third turn on and dominates in long "
        "episodes."
    )
    presets = {
        "paper": {},
        "release": {
            "shaping": "linear",
            "step_baseline": 0.55,
            "log_floor": -60.0,
            "rewarded_turns": "searches",
            "step_weight": 0.3,
            "outcome": "score",
            "outcome_weight": 1.5,
            "unanswered": "minus_one",
            "penalty_start_turn": 4,
        },
    }
    requires = ("value.pica",)
    properties = frozenset({"branches", "permutation", "telescoping"})
    ranges = {
        "penalty": "[0, inf)",
        "format_reward": "[0, inf)",
        "discount": "[0, 1]",
        "gae_lambda": "[0, 1]",
        "log_floor": "(-inf, 0)",
        "penalty_growth": "[1, inf)",
        "penalty_start_turn": "[1, inf)",
    }

    shaping: Literal["log", "linear"] = "log"
    step_baseline: float = 0.0
    log_floor: float = -10.0
    final: Literal["model", "outcome", "neutral"] = "model"
    rewarded_turns: Literal["all", "searches"] = "all"
    step_weight: float = 1.0
    outcome: Outcome = "return"
    outcome_weight: float = 1.0
    unanswered: Literal["outcome", "minus_one"] = "outcome"
    format_reward: float = 0.0
    penalty: float = 0.3
    penalty_growth: float = 1.5
    penalty_start_turn: int = 3
    discount: float = 1.0
    gae_lambda: float = 1.0
    baseline: Literal["none", "critic", "group"] = "none"

    @property
    def needs(self) -> tuple[str, ...]:
        """Annotations that the scheme reads: with a critic, its values too."""
        return (*self.requires, "value.critic") if self.baseline == "critic" else self.requires

    @property
    def checked_properties(self) -> frozenset[str]:
        """Declared properties. With a discount the differences do not telescope."""
        return super().checked_properties - (frozenset() if self.discount == 1.0 else {"telescoping"})

    @property
    def search_fields(self) -> tuple[str, ...]:
        """Which turns are searches, where only these are rewarded."""
        return ("queries",) if self.rewarded_turns == "searches" else ()

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: an annotation is missing, not finite or not a probability.
        """
        index = group.episode_index  # arrays are over turns of full episodes: branches begin with their prefix
        before, after = self._log_success(group)
        with np.errstate(over="ignore"):  # ``Credit.of`` rejects a ratio or a penalty that exceeds float64 by name
            if self.shaping == "log":
                shaped = self.discount * after - before
            else:
                shaped = np.exp(after - before) - self.step_baseline
            rewarded = self._rewarded(group)
            penalties = np.where(rewarded, self._penalties(group, rewarded), 0.0)
        shaping = self.step_weight * np.where(rewarded, shaped, 0.0)
        steps = shaping - self.step_weight * penalties
        outcome = self._outcomes(group)
        rewards = steps + np.where(index.last, outcome[index.episode], 0.0)
        total, outcome_part, delta = self._advantages(group, rewards, outcome)
        return Credit.of(
            group,
            outcome=outcome_part,
            step={"shaped rewards to go against the baseline": (total - outcome_part[index.episode])[index.own]},
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
        """Return log f, at least the floor, before and after every turn of the episodes, (M,) each."""
        arrays, index = group.arrays, group.episode_index
        start, success = (turn_values(group, name, scheme="pica") for name in ("value.pica", "value.pica.next"))
        for numbers in (start, success):
            if len(numbers) and not (numbers.min() >= 0.0 and numbers.max() <= 1.0):
                wrong = float(numbers[(numbers < 0.0) | (numbers > 1.0)][0])
                raise CreditError(
                    f"group {group.group_id!r}: value.pica is the probability of success and must lie in [0, 1], got {short_repr(wrong)}"
                )
        inconsistent = (start[1:] != success[:-1]) & ~arrays.last[:-1]
        if inconsistent.any():
            at = int(np.flatnonzero(inconsistent)[0])
            raise CreditError(
                f"group {group.group_id!r}: value.pica.next of a turn is {float(success[at])!r} and value.pica of the next "
                f"turn {float(start[at + 1])!r}: predictions of two models are mixed; annotate the log again"
            )
        floor = np.exp(self.log_floor)
        before, after = (np.log(np.maximum(numbers, floor))[index.stored] for numbers in (start, success))
        if self.final != "model":
            succeeded = arrays.success[index.episode[index.last]]
            after[index.last] = 0.0 if self.final == "neutral" else np.where(succeeded, 0.0, self.log_floor)
        return before, after

    def _rewarded(self, group: Group) -> NDArray[np.bool_]:
        """bool (M,): turns with a step reward."""
        index = group.episode_index
        rewarded = np.ones(len(index.stored), np.bool_)
        has_answer = answered(group)[index.episode]
        if self.rewarded_turns == "searches":
            searched = np.fromiter((bool(turn.queries) for turn in group.turns), np.bool_, len(index.own))
            rewarded = searched[index.stored] & ~(index.last & has_answer)
        return rewarded & has_answer if self.unanswered == "minus_one" else rewarded

    def _penalties(self, group: Group, rewarded: NDArray[np.bool_]) -> Floats:
        """float64 (M,): λ_p α^(t−3) from turn ``penalty_start_turn`` on."""
        index = group.episode_index
        count = np.cumsum(rewarded) if self.rewarded_turns == "searches" else np.arange(1, len(rewarded) + 1)
        number = count - np.concatenate([[0], count])[index.offsets[:-1]][index.episode]
        penalties = np.zeros(len(rewarded))
        if self.penalty > 0.0:  # growth beyond float64 gives inf, and 0 · inf would be NaN
            due = number >= self.penalty_start_turn
            penalties[due] = self.penalty * np.power(self.penalty_growth, number[due] - 3.0)
        return penalties

    def _outcomes(self, group: Group) -> Floats:
        """float64 (G,): weighted outcome rewards."""
        scores = outcome_scores(group, self.outcome)
        if self.unanswered == "minus_one":
            scores = np.where(answered(group), scores, -1.0)
        if self.format_reward:
            scores = scores + self.format_reward * np.array(
                [all(turn.parsed for turn in turns) for turns in group.episodes]
            )
        return self.outcome_weight * scores

    def _advantages(self, group: Group, rewards: Floats, outcome: Floats) -> tuple[Floats, Floats, Floats]:
        """Return advantages of turns (M,), their outcome part by trajectory (G,), and temporal differences (M,)."""
        index, size = group.episode_index, len(group)
        values = np.zeros(len(rewards))
        if self.baseline == "critic":
            values = turn_values(group, "value.critic", scheme="pica")[index.stored]
        delta, total = (
            gae_ragged(rewards, values, index.offsets, discount=self.discount, gae_lambda=gae_lambda)
            for gae_lambda in (0.0, self.gae_lambda)
        )
        if self.baseline == "group" and size > 1:
            returns = np.bincount(index.episode, rewards, minlength=size)
            mean_of_rest = (returns.sum() - returns) / (size - 1)
            total, outcome = total - mean_of_rest[index.episode], outcome - mean_of_rest
        return total, outcome, delta
