"""TRACE: outcome advantage plus the progress of the golden answer's log-probability over the next turns under a frozen model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.annotations.values import turn_values
from creditflow.wrappers.credit.base import Credit, CreditError, require_range
from creditflow.wrappers.credit.outcome import OutcomeScheme, answered
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["TRACE"]


@register
@dataclass(frozen=True, kw_only=True)
class TRACE(OutcomeScheme):
    """A_t = A_out + w (local_t + [t + K ≥ T] b γ^(T − t) A_out) for the T turns before the answer, and A_out for the answer turn.

    ℓ_k is the mean log-probability of the golden answer after k turns, d_k = m − ℓ_k, V_k = log(d_0 / d_k), δ_t = V_{t+1} −
    V_t = log(d_t / d_{t+1}), and local_t = Σ_{j<K'} γ^j δ_{t+j} / Σ_{j<K'} γ^j with K' = min(K, T − t). A_out is the z-score
    of the outcome in the group. There is no further normalisation.

    The formula and constants are from secondary sources and third-party code, which agree. One rule is ours: a
    truncated or malformed rollout has no answer, so all its turns are credited. If A_out = 0, w local_t remains, so a
    dead group still has credit. A small independent replication did not confirm the reported gain. It is not the method
    of the same name in arXiv 2606.11119.

    Attributes:
        window: K, in turns.
        discount: γ, within the window and of the outcome.
        margin: m > 0, which keeps log d finite at ℓ = 0.
        local_weight: w.
        outcome_bonus: b.
    """

    name = "trace"
    source = "TRACE (arXiv 2607.13988). The formula is from secondary sources, checked against third-party code"
    second_hand = True
    verification = "secondary sources and other projects' code"
    limitations = (
        "A dead group is trained on the likelihoods alone. The likelihood of the answer increases wherever its words "
        "occur, and the last turns get the outcome regardless of their actions."
    )
    requires = ("logp.answer.mean",)
    properties = frozenset({"branches", "one_member_zero", "permutation", "scale", "shift"})

    window: int = 3
    discount: float = 0.8
    margin: float = 0.1
    local_weight: float = 0.2
    outcome_bonus: float = 2.0

    def __post_init__(self) -> None:
        """Check every parameter."""
        super().__post_init__()
        require_range(self, "window", 1, np.inf)
        require_range(self, "discount", 0.0, 1.0, above=True)
        require_range(self, "margin", 0.0, np.inf, above=True)

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: a log-probability is missing, or above ``margin``.
        """
        arrays = group.arrays
        before = self.margin - turn_values(group, "logp.answer.mean", scheme=self.name)
        after = self.margin - turn_values(group, "logp.answer.mean.next", scheme=self.name)
        if not (np.minimum(before, after) > 0.0).all():
            raise CreditError(
                f"group {group.group_id!r}: logp.answer.mean must be a log-probability, below trace.margin={self.margin:g}, got "
                f"{float(self.margin - np.minimum(before, after).min()):g}"
            )
        answer = arrays.last & answered(group)[arrays.trajectory]
        turns_left = arrays.offsets[1:][arrays.trajectory] - answered(group)[arrays.trajectory] - np.arange(len(before))
        with np.errstate(over="ignore", divide="ignore"):  # rejected below, by name
            delta = np.where(answer, 0.0, np.log(before / after))
        total, weights, n = np.zeros(len(delta)), np.zeros(len(delta)), len(delta)
        for j in range(min(self.window, int(turns_left.max(initial=0)))):
            inside = turns_left > j
            total[inside] += self.discount**j * delta[np.minimum(np.arange(n) + j, n - 1)[inside]]
            weights[inside] += self.discount**j
        local = np.divide(total, weights, out=np.zeros(n), where=weights > 0.0)
        outcome, turn_part = self.outcome_part(group, std_kind="population")
        bonus = self.outcome_bonus * self.discount ** np.maximum(turns_left, 0) * outcome[arrays.trajectory]
        local += np.where(~answer & (turns_left <= self.window), bonus, 0.0)
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "mean gain of the window": self.local_weight * local,
            },
            rewards=delta,
            aggregation="trajectory_mean",
            diagnostics={"step_advantage": self.local_weight * local},
        )
