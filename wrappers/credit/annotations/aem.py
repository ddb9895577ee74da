"""AEM: the outcome advantage of each turn, scaled down where the model was uncertain and up where it was certain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit, CreditError, require_range
from creditflow.wrappers.credit.outcome import OutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["AEM"]


@register
@dataclass(frozen=True, kw_only=True)
class AEM(OutcomeScheme):
    """A_t = α_t A with α_t = exp(−λ H̃_t) / mean exp(−λ H̃), H̃ the turns' uncertainty, scaled to [0, 1] over the rollout.

    H_t is the mean entropy (in nats) of the policy over the tokens of response t, which is the annotation "entropy". H̃
    = (H − min) / (max − min), and α = 1 if all H are equal. α has mean 1 over the rollout, so it moves the outcome
    advantage between turns and never changes its sign. While failures prevail, weaker updates of surprising responses
    keep the entropy up. Once successes prevail, stronger updates of likely responses bring it down.

    The formula comes from the abstract and from notes of others on the paper, which agree on it. The paper itself could
    not be read. Two choices are ours, because the paper's were not found: λ, and that min, max and mean are taken over
    a rollout and not over a group, as in one of the notes.

    Attributes:
        sharpness: λ ≥ 0 (ours, because none was found). 0 is grpo.
        over: responses that H is compared among: those of the "rollout", or of the whole "group".
        uncertainty: H: the annotation "entropy", or "logprobs" (ours): minus the mean log-probability of the turn's sampled
            tokens, an unbiased estimate of it that every log of a language model has.
    """

    name = "aem"
    source = "AEM (arXiv 2605.00425), the abstract. The formula is from secondary sources that agree, and λ is ours"
    credit_needs = "unequal outcomes"
    verification = "the abstract and secondary sources (no code found, λ is ours)"
    limitations = (
        "It moves credit by the model's certainty alone, whether or not the turn mattered. A long confident routine "
        "gets more credit than the decision."
    )
    requires = ("entropy",)
    properties = frozenset(
        {
            "all_fail_zero",
            "branches",
            "keeps_sign",
            "one_member_zero",
            "permutation",
            "scale",
            "shift",
            "stopping_time",
            "ties_zero",
        }
    )

    sharpness: float = 1.0
    over: Literal["rollout", "group"] = "rollout"
    uncertainty: Literal["entropy", "logprobs"] = "entropy"

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "sharpness", 0.0, 64.0)

    @property
    def needs(self) -> tuple[str, ...]:
        """The annotation, unless the log-probabilities of the log are used."""
        return self.requires if self.uncertainty == "entropy" else ()

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group)
        episodes = group.episode_index
        factor = self._factors(self._uncertainties(group)[episodes.stored], episodes.episode, len(group))[episodes.own]
        moved = outcome[group.arrays.trajectory] * (factor - 1.0)
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "outcome advantage, moved between turns": moved,
                "penalty of the advantage": -self.advantage_penalties(group),
            },
            rewards=factor,
            diagnostics={"step_advantage": moved},
        )

    def _factors(self, uncertainty: NDArray[np.float64], episode: NDArray[np.int32], size: int) -> NDArray[np.float64]:
        """float64 (M,): α of each turn of the full episodes."""
        if self.over == "group":
            episode, size = np.zeros_like(episode), 1
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(low, episode, uncertainty)
        np.maximum.at(high, episode, uncertainty)
        width = (high - low)[episode]
        scaled = np.divide(uncertainty - low[episode], width, out=np.zeros(len(episode)), where=width > 0.0)
        weight = np.exp(-self.sharpness * scaled)
        mean = np.bincount(episode, weight, minlength=size) / np.maximum(np.bincount(episode, minlength=size), 1)
        factors: NDArray[np.float64] = weight / mean[episode]
        return factors

    def _uncertainties(self, group: Group) -> NDArray[np.float64]:
        """float64 (N,): H of each turn."""
        if self.uncertainty == "entropy":
            return turn_values(group, "entropy", scheme=self.name)
        means = []
        for member in group.trajectories:
            tokens = member.tokens
            if tokens is None:
                if member.turns:
                    raise CreditError(
                        f"group {group.group_id!r}, trajectory {member.trajectory_id!r} has no tokens: uncertainty='logprobs' "
                        "reads the log-probabilities of rollouts of a language model"
                    )
                continue
            sums = np.concatenate([[0.0], np.cumsum(np.where(tokens.mask, tokens.logprobs, 0.0))])[tokens.turn_offsets]
            counts = np.concatenate([[0], np.cumsum(tokens.mask)])[tokens.turn_offsets]
            means.append(-np.diff(sums) / np.maximum(np.diff(counts), 1))
        return np.concatenate([np.zeros(0), *means])
