"""IGPO: information gain of each turn about the reference answer, normalised within the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import Outcome, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group, backward_sums

__all__ = ["IGPO"]


@register
@dataclass(frozen=True, kw_only=True)
class IGPO(Scheme):
    """A_t = Σ_{k ≥ t} γ^{k−t} r̃_k, r̃ the normalised gains before the last turn, and its outcome at the last.

    A turn's gain is p(answer | history after it) − p(answer | history before it), where p is the geometric mean over
    the answer's tokens. The last turn, which answers, gets the trajectory's outcome instead. The sum of centred gains
    favours long trajectories if gains exceed the mean, and turns without gain get positive credit if the mean is below
    0.

    Attributes:
        gain: "probability", or "logarithm": the difference of log p.
        normalization: gains and outcomes share a mean and deviation ("joint") or have one each ("separate").
        outcome: outcome of a trajectory: its "return", "success" or graded "score".
        discount: γ, per turn.
        outcome_discounted: whether the outcome is discounted too. In the released code it counts in full on every turn.
        std_eps: added to the standard deviations.
    """

    gain: Literal["probability", "logarithm"] = "probability"
    normalization: Literal["joint", "separate"] = "joint"
    outcome: Outcome = "return"
    discount: float = 1.0
    outcome_discounted: bool = True
    std_eps: float = 0.0

    name = "igpo"
    source = (
        "IGPO (arXiv 2510.14967). Released code: the turn-level branch named after it in PiCA's code (novdream/PiCA)"
    )
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = (
        "The sum of centred gains favours long trajectories if gains exceed the mean, and turns without gain get "
        "positive credit if the mean is below 0. It needs a reference answer."
    )
    presets = {"paper": {}, "release": {"normalization": "separate", "outcome_discounted": False, "std_eps": 1e-6}}
    requires = ("logp.answer.mean",)
    properties = frozenset({"permutation"})
    ranges = {"discount": "[0, 1]", "std_eps": "[0, inf)"}

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: an annotation is missing, or too large for float64.
        """
        arrays = group.arrays
        before = turn_values(group, "logp.answer.mean", scheme=self.name)
        after = turn_values(group, "logp.answer.mean.next", scheme=self.name)
        with np.errstate(over="ignore", invalid="ignore"):  # rejected below, by name
            gains = after - before if self.gain == "logarithm" else np.exp(after) - np.exp(before)
        gains = np.where(arrays.last, 0.0, gains)
        outcomes = outcome_scores(group, self.outcome)
        normalized_gains, normalized_outcomes = self._normalized(gains, ~arrays.last, outcomes)
        step = np.zeros(len(gains))
        step[~arrays.last] = normalized_gains
        terms = {"information gains to go": backward_sums(step, arrays.offsets, self.discount)}
        turns_left = arrays.offsets[1:][arrays.trajectory] - 1.0 - np.arange(len(step))
        if self.outcome_discounted and self.discount < 1.0:
            terms["outcome, discounted"] = normalized_outcomes[arrays.trajectory] * (self.discount**turns_left - 1.0)
        return Credit.of(group, outcome=normalized_outcomes, step=terms, rewards=gains)

    def _normalized(
        self, gains: NDArray[np.float64], inside: NDArray[np.bool_], outcomes: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return normalised gains of the turns inside, and outcomes (G,)."""
        turns = np.flatnonzero(inside)
        scores = np.concatenate([gains[turns], outcomes])
        labels = np.zeros(len(scores), np.int32)
        if self.normalization == "separate":
            labels[len(turns) :] = 1
        out = normalize(
            scores,
            labels,
            2,
            std_eps=self.std_eps,
            std_kind="population",
            quantity="information gain, or outcome",
            rows=np.concatenate([turns, -1 - np.arange(len(outcomes))]),
        )
        return out[: len(turns)], out[len(turns) :]
