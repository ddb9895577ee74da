"""Quality of credit against exact values of a single task: concordance within states (M4), and hidden value (M5)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.controls import IndexedTurns
from creditflow.train.statistics import auroc

__all__ = ["Concordance", "HiddenValue", "centered_within_states", "hidden_value", "pairwise_concordance"]

Floats = NDArray[np.float64]
TOLERANCE = 1e-9  # smaller differences of exact values are rounding errors


class Concordance(NamedTuple):
    """M4: concordance of credit with action values within a state; as sums, so that groups can be added.

    Attributes:
        agreed: Σ |ΔQ| over pairs ordered as Q orders them, ties of credit counted half.
        total: Σ |ΔQ| over all pairs.
    """

    agreed: float
    total: float

    @property
    def fraction(self) -> float:
        """In [0, 1]; 0.5 is chance; nan without pairs."""
        return self.agreed / self.total if self.total else float("nan")


def pairwise_concordance(indexed: IndexedTurns, credit_rows: Floats, action_values: Floats) -> list[Concordance]:
    """M4 over pairs of turns in one state with different actions; one result per row of ``credit_rows``.

    Two turns in one state seldom have equally many turns left. To compare actions and not the turns left, ΔQ is the
    difference of the two actions' values, averaged over both numbers of turns left.

    Args:
        indexed: the group's turns.
        credit_rows: float64 (C, N), credit of C methods.
        action_values: float64 (H+1, S, A), Q by turns left; or (S, A).
    """
    agreed, total = np.zeros(len(credit_rows)), 0.0
    order = np.argsort(indexed.state, kind="stable")
    order = order[indexed.action[order] >= 0]
    bounds = np.flatnonzero(np.diff(indexed.state[order], prepend=-1, append=-1))
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        turns = order[a:b]
        state, action = int(indexed.state[turns[0]]), indexed.action[turns]
        if (action == action[0]).all():
            continue
        if action_values.ndim == 3:
            table = action_values[indexed.left[turns], state]  # (n, A): every action with each turn's turns left
            own = table[np.arange(len(turns)), action]
            swapped = table[:, action]  # [u, v]: the action of v with the turns left of u
            difference = 0.5 * (own[:, None] - swapped + swapped.T - own[None, :])
        else:
            own = action_values[state, action]
            difference = own[:, None] - own[None, :]
        upper = np.triu(np.ones(difference.shape, np.bool_), 1) & (action[:, None] != action[None, :])
        u, v = np.nonzero(upper & (np.abs(difference) > TOLERANCE))
        if not len(u):
            continue
        weight, sign = np.abs(difference[u, v]), np.sign(difference[u, v])
        ordered = np.sign(_rounded(credit_rows[:, turns[u]] - credit_rows[:, turns[v]]))
        agreed += ((ordered == sign) + 0.5 * (ordered == 0)) @ weight
        total += float(weight.sum())
    return [Concordance(float(x), total) for x in agreed]


def _rounded(x: Floats) -> Floats:
    """Values with rounding errors set to 0, so that they count as ties."""
    return np.where(np.abs(x) < 1e-12, 0.0, x)


class HiddenValue(NamedTuple):
    """M5: does credit separate good turns from bad ones within failed and within successful rollouts?

    Attributes:
        failed, succeeded: AUROC of centered credit for A^π > τ against A^π < −τ in failed and in successful rollouts.
        failed_raw, succeeded_raw: the same of raw credit.
        failed_base, succeeded_base: fraction of good turns among good and bad ones.
    """

    failed: float
    succeeded: float
    failed_raw: float
    succeeded_raw: float
    failed_base: float
    succeeded_base: float


def hidden_value(
    advantages: Floats, centered: Floats, raw: Floats, success: NDArray[np.bool_], threshold: float = 0.01
) -> HiddenValue:
    """M5 over the pooled turns of many groups; each argument (N,).

    Args:
        advantages: A^π.
        centered: credit minus its mean over the turns in the same state of the group.
        raw: credit.
        success: whether the turn belongs to a successful rollout.
        threshold: τ.
    """
    good, bad = advantages > threshold, advantages < -threshold
    parts = [
        auroc(_rounded(credit[(good | bad) & side]), good[(good | bad) & side])
        for credit in (centered, raw)
        for side in (~success, success)
    ]
    bases = [
        float((good & side).sum() / n) if (n := int(((good | bad) & side).sum())) else float("nan")
        for side in (~success, success)
    ]
    return HiddenValue(*parts, *bases)


def centered_within_states(credit: Floats, state: NDArray[np.int64]) -> Floats:
    """Credit (N,) minus its mean over the turns with the same state index (N,); float64 (N,)."""
    count = np.bincount(state)
    return credit - (np.bincount(state, credit) / np.maximum(count, 1))[state]
