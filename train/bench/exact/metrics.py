"""How good credit is, measured against exact values: direction, improvement, bias and variance, concordance, AUROC.

Throughout, a group's sampled gradient of a softmax table is g = (1/G) Σ_i Σ_t m_it c_it ∇ log π(a_it | s_it), and
g* = ∇J. Every function takes what one task gives; averaging over tasks is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.controls import Judge, Located
from creditflow.train.bench.exact.policies import softmax
from creditflow.train.bench.exact.steps import step_sizes
from creditflow.train.bench.exact.values import success
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.records.group import Group

__all__ = [
    "BiasVariance",
    "Concordance",
    "Direction",
    "HiddenValue",
    "area_under_roc",
    "bias_variance",
    "centred_within_states",
    "concordance",
    "coverage",
    "direction",
    "gains",
    "hidden_value",
    "mid_ranks",
    "rank_correlation",
    "sampled_gradient",
]

Floats = NDArray[np.float64]
CACHED = 65_536  # numbers worked on at a time: as much as stays in a core's cache
SAME = 1e-9  # differences of exact values below it are rounding


def sampled_gradient(judge: Judge, group: Group, credit: Credit, located: Located | None = None) -> Floats:
    """g of one group: float64 (S, A). Refused actions have no gradient."""
    state, _, action, _ = judge.locate(group) if located is None else located
    weight = np.where(credit.flat_loss_mask & (action >= 0), credit.flat_advantages, 0.0) / group.arrays.size
    shape = judge.policy.shape
    gradient = np.bincount(state * shape[1] + np.maximum(action, 0), weight, minlength=shape[0] * shape[1])
    total = np.bincount(state, weight, minlength=shape[0])
    result: Floats = gradient.reshape(shape) - total[:, None] * judge.policy
    return result


# -- M1 direction, M3 bias and variance -----------------------------------------------------------------------------------
class Direction(NamedTuple):
    """M1.

    Attributes:
        of_mean: cos(E g, g*); the norm of E g is freed of the sampling noise that the mean of n groups still has.
        one_batch: mean over groups of cos(g, g*), 0 where g = 0.
    """

    of_mean: float
    one_batch: float


class BiasVariance(NamedTuple):
    """M3, after scaling by the best factor α* = ⟨E g, g*⟩ / ‖E g‖².

    Attributes:
        bias2: ‖α* E g − g*‖² / ‖g*‖² = 1 − cos²(E g, g*).
        variance: α*² tr Cov(g) / ‖g*‖²; inf where E g and g* are at right angles.
    """

    bias2: float
    variance: float


class _Moments(NamedTuple):
    along: float  # ⟨E g, g*⟩ / ‖g*‖
    norm2: float  # ‖E g‖²
    noise: float  # tr Cov(g)


def _moments(gradients: Floats, target: Floats) -> _Moments:
    flat, aim = gradients.reshape(len(gradients), -1), target.ravel()
    mean = flat.mean(axis=0)
    noise = float(((flat - mean) ** 2).sum() / max(len(flat) - 1, 1))
    along = float(mean @ aim / np.linalg.norm(aim))
    # E‖mean of n‖² = ‖E g‖² + tr Cov / n; by Cauchy and Schwarz ‖E g‖² is at least the part along g*
    norm2 = max(float(mean @ mean) - noise / len(flat), along**2)
    return _Moments(along, norm2, noise)


def direction(gradients: Floats, target: Floats) -> Direction:
    """M1 of sampled gradients (n, S, A) against g* (S, A); g* must not vanish."""
    moments = _moments(gradients, target)
    flat, aim = gradients.reshape(len(gradients), -1), target.ravel()
    norms = np.linalg.norm(flat, axis=1)
    cosines = np.divide(flat @ aim, norms * np.linalg.norm(aim), out=np.zeros(len(flat)), where=norms > 0.0)
    of_mean = moments.along / np.sqrt(moments.norm2) if moments.norm2 > 0.0 else 0.0
    return Direction(float(of_mean), float(cosines.mean()))


def bias_variance(gradients: Floats, target: Floats) -> BiasVariance:
    """M3 of sampled gradients (n, S, A) against g* (S, A)."""
    along, norm2, noise = _moments(gradients, target)
    if norm2 == 0.0 or along == 0.0:
        return BiasVariance(1.0, float("inf"))
    share = along**2 / norm2
    # α* = along ‖g*‖ / norm2, so α*² / ‖g*‖² = (along / norm2)²
    return BiasVariance(1.0 - share, (along / norm2) ** 2 * noise)


# -- M2 improvement ---------------------------------------------------------------------------------------------------------
def gains(judge: Judge, logits: Floats, directions: Floats, kl: float) -> Floats:
    """M2: gain of exact J after a step along each direction whose visit-weighted KL is ``kl``; float64 (B,).

    Args:
        judge: of the policy softmax(logits).
        logits: float64 (S, A).
        directions: float64 (B, S, A).
        kl: in nats, averaged over the states that the policy visits.
    """
    policy, weights = judge.policy[None], judge.shares[None]
    reached = np.full(len(directions), judge.success)
    some = max(CACHED // logits.size, 1)
    for first in range(0, len(directions), some):
        chosen = directions[first : first + some]
        met = np.flatnonzero(chosen.any(axis=(0, 2)))  # elsewhere nothing moves
        if not len(met):
            continue
        sizes = step_sizes(policy[:, met], chosen[:, met], weights[:, met], kl)
        moved = logits[met] + sizes[:, None, None] * chosen[:, met]
        policies = np.repeat(policy, len(chosen), axis=0)
        policies[:, met] = softmax(moved)
        reached[first : first + some] = success(judge.mdp, policies)
    return reached - judge.success


# -- M4 concordance within a state ------------------------------------------------------------------------------------------
class Concordance(NamedTuple):
    """M4 as sums, so that groups can be added.

    Attributes:
        agreed: Σ |ΔQ| over pairs ordered as Q orders them, ties of credit counted half.
        total: Σ |ΔQ| over all pairs.
    """

    agreed: float
    total: float

    @property
    def share(self) -> float:
        """In [0, 1]; 0.5 says nothing; nan without pairs."""
        return self.agreed / self.total if self.total else float("nan")


def concordance(located: Located, columns: Floats, action_values: Floats) -> list[Concordance]:
    """M4 over pairs of turns in one state with different actions; one result per row of ``columns``.

    Two turns in one state seldom have equally many turns left. So that the pair compares actions and not times, ΔQ is
    the difference of the two actions' values, averaged over both times.

    Args:
        located: the group's turns.
        columns: float64 (C, N), credit, one row per column of the table.
        action_values: float64 (H+1, S, A), Q by turns left; or (S, A).
    """
    agreed, total = np.zeros(len(columns)), 0.0
    order = np.argsort(located.state, kind="stable")
    order = order[located.action[order] >= 0]
    bounds = np.flatnonzero(np.diff(located.state[order], prepend=-1, append=-1))
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        turns = order[a:b]
        state, action = int(located.state[turns[0]]), located.action[turns]
        if (action == action[0]).all():
            continue
        if action_values.ndim == 3:
            table = action_values[located.left[turns], state]  # (n, A): every action at each turn's time
            own = table[np.arange(len(turns)), action]
            swapped = table[:, action]  # [u, v]: the action of v at the time of u
            difference = 0.5 * (own[:, None] - swapped + swapped.T - own[None, :])
        else:
            own = action_values[state, action]
            difference = own[:, None] - own[None, :]
        upper = np.triu(np.ones(difference.shape, np.bool_), 1) & (action[:, None] != action[None, :])
        u, v = np.nonzero(upper & (np.abs(difference) > SAME))
        if not len(u):
            continue
        weight, sign = np.abs(difference[u, v]), np.sign(difference[u, v])
        here = np.sign(_rounded(columns[:, turns[u]] - columns[:, turns[v]]))
        agreed += ((here == sign) + 0.5 * (here == 0)) @ weight
        total += float(weight.sum())
    return [Concordance(float(x), total) for x in agreed]


def _rounded(x: Floats) -> Floats:
    """Differences of credit that are rounding noise are ties."""
    return np.where(np.abs(x) < 1e-12, 0.0, x)


# -- M5 hidden value --------------------------------------------------------------------------------------------------------
class HiddenValue(NamedTuple):
    """M5: does credit find what a rollout's outcome hides?

    Attributes:
        failed, succeeded: AUROC of centred credit for A^π > τ against A^π < −τ inside failed and successful rollouts.
        failed_raw, succeeded_raw: the same of raw credit.
        failed_base, succeeded_base: share of good turns among good and bad ones.
    """

    failed: float
    succeeded: float
    failed_raw: float
    succeeded_raw: float
    failed_base: float
    succeeded_base: float


def hidden_value(
    advantages: Floats, centred: Floats, raw: Floats, won: NDArray[np.bool_], threshold: float = 0.01
) -> HiddenValue:
    """M5 over the pooled turns of many groups; each argument (N,).

    Args:
        advantages: A^π.
        centred: credit minus its mean over the turns in the same state of the group.
        raw: credit.
        won: whether the turn belongs to a successful rollout.
        threshold: τ.
    """
    good, bad = advantages > threshold, advantages < -threshold
    parts = [
        area_under_roc(credit[good & side], credit[bad & side]) for credit in (centred, raw) for side in (~won, won)
    ]
    bases = [
        float((good & side).sum() / n) if (n := int(((good | bad) & side).sum())) else float("nan")
        for side in (~won, won)
    ]
    return HiddenValue(*parts, *bases)


def area_under_roc(positives: Floats, negatives: Floats) -> float:
    """Chance that a positive scores above a negative, ties half; nan if either is missing."""
    n, m = len(positives), len(negatives)
    if not n or not m:
        return float("nan")
    ranks = mid_ranks(_rounded(np.concatenate([positives, negatives])))
    return float((ranks[:n].sum() - n * (n + 1) / 2.0) / (n * m))


def centred_within_states(credit: Floats, state: NDArray[np.int64]) -> Floats:
    """c minus its mean over turns at the same state; float64 (N,)."""
    count = np.bincount(state)
    return credit - (np.bincount(state, credit) / np.maximum(count, 1))[state]


def coverage(scored: Sequence[Credit]) -> float:
    """Share of turns whose credit is not 0."""
    turns = sum(len(c.flat_advantages) for c in scored)
    return sum(int(np.count_nonzero(c.flat_advantages)) for c in scored) / turns if turns else float("nan")


# -- ranks ------------------------------------------------------------------------------------------------------------------
def mid_ranks(x: Floats) -> Floats:
    """Ranks from 1, ties share their mean rank."""
    _, inverse, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    middle: Floats = last - (count - 1) / 2.0
    return middle[inverse]


def rank_correlation(x: Floats, y: Floats) -> float:
    """Spearman's correlation; nan if either is constant or has fewer than two entries."""
    if len(x) < 2:
        return float("nan")
    a, b = mid_ranks(np.asarray(x)), mid_ranks(np.asarray(y))
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b / size) if size > 0.0 else float("nan")
