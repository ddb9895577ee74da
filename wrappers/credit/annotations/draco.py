"""DRACO: the outcome advantage distributed over turns by the rubric criteria for which an LLM judge cites them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.annotations.values import WRITERS, turn_values
from creditflow.wrappers.credit.base import Credit, CreditError
from creditflow.wrappers.credit.outcome import Outcome, OutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["DRACO"]

PASSED, FAILED, SCORE = "rubric.passed", "rubric.failed", "rubric.score"


@register
@dataclass(frozen=True, kw_only=True)
class DRACO(OutcomeScheme):
    """a_j = A_i N w_j / (n_j Σ w) on every token of turn j, with w = Q where A_i ≥ 0 and 1 − Q where A_i < 0.

    Q_j = p_j / (p_j + f_j) for a turn cited for p_j passed and f_j failed criteria. Turns without a citation get the
    mean Q of the cited turns of their rollout. n_j is the number of the turn's model tokens, N their sum, so that Σ_j
    n_j a_j = A_i N, and the sign of A_i is preserved. A_i is the z-score of the rollout's score in the group. In a
    rollout without citations every turn gets A_i, as in GRPO.

    The source is the paper. Its code was not obtained. The annotations "rubric.passed" and "rubric.failed" are numbers
    ≥ 0. The paper's score is (p − f)/(p + f) over the applicable criteria that some member failed, and 0 if there are
    none. It is the trajectory's annotation "rubric.score", which ``score_from="rubric"`` uses. By default ``outcome``
    is used. Three choices are ours: every turn gets A_i if all w are 0 (the paper leaves this open), turns without
    tokens get no credit, and the deviation is that of a sample.

    A short turn gets up to A_i N / n_j. ``diagnostics["largest"]`` is the largest |a| of the group.

    Attributes:
        score_from: the score of a rollout: the one that ``outcome`` specifies, or the annotation "rubric.score"
            (paper).
    """

    name = "draco"
    source = "DRACO (arXiv 2609.04094)"
    verification = "the paper (its code was not obtained)"
    limitations = (
        "It relies on the judge's citations. A trajectory without citations gets the credit of grpo. The credit of a "
        "turn's tokens is inversely proportional to their number."
    )
    requires = (PASSED, FAILED)
    properties = frozenset(
        {"all_fail_zero", "branches", "keeps_sign", "one_member_zero", "permutation", "stopping_time", "ties_zero"}
    )

    outcome: Outcome = "score"
    score_from: Literal["outcome", "rubric"] = "outcome"

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: a turn or rollout lacks an annotation, or a turn has a negative one.
        """
        episodes = group.episode_index
        owner, size = episodes.episode, len(group)
        passed, failed = (turn_values(group, name, scheme=self.name)[episodes.stored] for name in (PASSED, FAILED))
        if (np.minimum(passed, failed) < 0.0).any():
            raise CreditError(
                f"group {group.group_id!r}: {PASSED} and {FAILED} must be numbers of criteria, at least 0, got "
                f"{float(np.minimum(passed, failed).min()):g}"
            )
        outcome, turn_part = self.outcome_part(group, scores=self._scores(group))
        cited = passed + failed > 0.0
        quality = np.divide(passed, passed + failed, out=np.zeros(len(passed)), where=cited)
        citations = np.bincount(owner, cited, minlength=size)
        mean = np.bincount(owner, quality, minlength=size) / np.maximum(citations, 1.0)
        quality = np.where(cited, quality, mean[owner])
        tokens = group.token_counts[episodes.stored].astype(np.float64)
        weight = np.where(outcome[owner] >= 0.0, quality, 1.0 - quality) * (tokens > 0.0)
        total = np.bincount(owner, weight, minlength=size)[owner]
        all_tokens = np.bincount(owner, tokens, minlength=size)[owner]
        spread = (citations[owner] > 0.0) & (total > 0.0) & (tokens > 0.0)
        factor = np.divide(all_tokens * weight, tokens * total, out=np.ones(len(weight)), where=spread)
        step = (outcome[owner] * (factor - 1.0))[episodes.own]
        advantages = outcome[group.arrays.trajectory] + step
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "outcome advantage, moved between turns": step,
            },
            rewards=quality[episodes.own],
            diagnostics={"step_advantage": step, "largest": float(np.abs(advantages).max(initial=0.0))},
        )

    def _scores(self, group: Group) -> NDArray[np.float64] | None:
        """float64 (G,): scores by the rubric, or None for those that ``outcome`` specifies."""
        if self.score_from == "outcome":
            return None
        missing = [m.trajectory_id for m in group.trajectories if SCORE not in m.values]
        if missing:
            raise CreditError(
                f"group {group.group_id!r}, trajectory {missing[0]!r} has no annotation {SCORE!r}; write it with: creditflow "
                f"annotate --with {WRITERS[PASSED]} IN.jsonl --out OUT.jsonl"
            )
        return np.array([m.values[SCORE] for m in group.trajectories], np.float64)
