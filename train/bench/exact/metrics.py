"""Quality of credit against exact values: direction, improvement, bias and variance, concordance, AUROC.

Throughout, the sampled gradient of a softmax table from one group is g = (1/G) Σ_i Σ_t m_it c_it ∇ log π(a_it | s_it),
with credit c and loss mask m, and g* = ∇J. Every function is about one task; averages over tasks are taken elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.controls import ExactEvaluator, IndexedTurns
from creditflow.train.bench.exact.policies import softmax
from creditflow.train.bench.exact.steps import step_sizes
from creditflow.train.bench.exact.values import success
from creditflow.train.statistics import auroc
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.records.group import Group

__all__ = [
    "BiasVariance",
    "Concordance",
    "Direction",
    "HiddenValue",
    "Moments",
    "bias_variance",
    "centered_within_states",
    "coverage",
    "direction",
    "gains",
    "hidden_value",
    "pairwise_concordance",
    "sampled_gradient",
]

Floats = NDArray[np.float64]
CHUNK_ENTRIES = 65_536  # array entries processed at a time: as many as stay in a core's cache
TOLERANCE = 1e-9  # smaller differences of exact values are rounding errors


def sampled_gradient(
    evaluator: ExactEvaluator, group: Group, credit: Credit, indexed: IndexedTurns | None = None
) -> Floats:
    """g of one group: float64 (S, A). Invalid actions have no gradient."""
    state, _, action, _ = evaluator.index_turns(group) if indexed is None else indexed
    weight = np.where(credit.flat_loss_mask & (action >= 0), credit.flat_advantages, 0.0) / group.arrays.size
    shape = evaluator.policy.shape
    gradient = np.bincount(state * shape[1] + np.maximum(action, 0), weight, minlength=shape[0] * shape[1])
    total = np.bincount(state, weight, minlength=shape[0])
    result: Floats = gradient.reshape(shape) - total[:, None] * evaluator.policy
    return result


class Direction(NamedTuple):
    """M1: cosine between sampled gradients and g*.

    Attributes:
        of_mean: cos(E g, g*); the norm of E g is corrected for the sampling noise left in the mean of n groups.
        one_batch: mean over groups of cos(g, g*), 0 where g = 0.
    """

    of_mean: float
    one_batch: float


class BiasVariance(NamedTuple):
    """M3: squared bias and variance of sampled gradients, after scaling by the best factor α* = ⟨E g, g*⟩ / ‖E g‖².

    Attributes:
        bias2: ‖α* E g − g*‖² / ‖g*‖² = 1 − cos²(E g, g*).
        variance: α*² tr Cov(g) / ‖g*‖²; inf where E g and g* are orthogonal.
    """

    bias2: float
    variance: float


class Moments(NamedTuple):
    """Moments of sampled gradients relative to g*, from which M1 and M3 follow.

    Attributes:
        along: ⟨E g, g*⟩ / ‖g*‖.
        norm2: ‖E g‖².
        noise: tr Cov(g).
    """

    along: float
    norm2: float
    noise: float

    @classmethod
    def of(cls, mean: Floats, noise: float, count: int, exact: Floats) -> Moments:
        """From the mean of n gradients (P,), the estimate of tr Cov(g), n, and g* (P,), which must not vanish."""
        along = float(mean @ exact / np.linalg.norm(exact))
        # for the mean ḡ of n gradients, E‖ḡ‖² = ‖E g‖² + tr Cov / n; by Cauchy–Schwarz, ‖E g‖² ≥ ⟨E g, g*⟩² / ‖g*‖²
        return cls(along, max(float(mean @ mean) - noise / count, along**2), noise)

    @property
    def cosine(self) -> float:
        """cos(E g, g*)."""
        return float(self.along / np.sqrt(self.norm2)) if self.norm2 > 0.0 else 0.0

    @property
    def bias_variance(self) -> BiasVariance:
        """M3."""
        along, norm2, noise = self
        if norm2 == 0.0 or along == 0.0:
            return BiasVariance(1.0, float("inf"))
        # α* = along ‖g*‖ / norm2, so α*² / ‖g*‖² = (along / norm2)²
        return BiasVariance(1.0 - along**2 / norm2, (along / norm2) ** 2 * noise)


def _moments(gradients: Floats, target: Floats) -> Moments:
    flat = gradients.reshape(len(gradients), -1)
    mean = flat.mean(axis=0)
    noise = float(((flat - mean) ** 2).sum() / max(len(flat) - 1, 1))
    return Moments.of(mean, noise, len(flat), target.ravel())


def direction(gradients: Floats, target: Floats) -> Direction:
    """M1 of sampled gradients (n, S, A) against g* (S, A); g* must not vanish."""
    flat, exact = gradients.reshape(len(gradients), -1), target.ravel()
    norms = np.linalg.norm(flat, axis=1)
    cosines = np.divide(flat @ exact, norms * np.linalg.norm(exact), out=np.zeros(len(flat)), where=norms > 0.0)
    return Direction(_moments(gradients, target).cosine, float(cosines.mean()))


def bias_variance(gradients: Floats, target: Floats) -> BiasVariance:
    """M3 of sampled gradients (n, S, A) against g* (S, A)."""
    return _moments(gradients, target).bias_variance


def gains(evaluator: ExactEvaluator, logits: Floats, directions: Floats, kl: float) -> Floats:
    """M2: gain of exact J from a step of visit-weighted KL divergence ``kl`` along each direction; float64 (B,).

    Args:
        evaluator: exact values of the policy softmax(logits).
        logits: float64 (S, A).
        directions: float64 (B, S, A).
        kl: in nats, averaged over the states that the policy visits.
    """
    policy, weights = evaluator.policy[None], evaluator.visitation[None]
    success_after = np.full(len(directions), evaluator.success)
    chunk = max(CHUNK_ENTRIES // logits.size, 1)
    for first in range(0, len(directions), chunk):
        chosen = directions[first : first + chunk]
        states = np.flatnonzero(chosen.any(axis=(0, 2)))  # elsewhere the policy stays as it is
        if not len(states):
            continue
        sizes = step_sizes(policy[:, states], chosen[:, states], weights[:, states], kl)
        moved = logits[states] + sizes[:, None, None] * chosen[:, states]
        policies = np.repeat(policy, len(chosen), axis=0)
        policies[:, states] = softmax(moved)
        success_after[first : first + chunk] = success(evaluator.mdp, policies)
    return success_after - evaluator.success


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


def coverage(scored: Sequence[Credit]) -> float:
    """Fraction of turns whose credit is not 0."""
    turns = sum(len(c.flat_advantages) for c in scored)
    return sum(int(np.count_nonzero(c.flat_advantages)) for c in scored) / turns if turns else float("nan")
