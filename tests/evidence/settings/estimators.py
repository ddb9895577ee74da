"""Estimators under study: combinations of schemes, and GRPO on a discounted outcome. ``register_estimators`` registers them.

For group b let c be the default credit of ``grouptd`` and g that of ``gigpo``, x̃ = x minus its mean over the turns of b, and
u(x) = x / RMS over the batch. The scheme ``blend`` is A = w u(u(c̃) + ½ u(g̃)) + (1 − w) u(τ̃), where τ is a baseline of time that reads no
states, and w in [0, 1] rises with the share of turns whose state another rollout of the group visits. ``blend_with_limit``, which was
written before that scheme was, also tells ``grouptd`` the turn limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers import credit
from creditflow.wrappers.credit import Credit, Scheme, register
from creditflow.wrappers.records.group import Group, backward_sums

__all__ = ["BlendWithLimit", "DiscountedOutcome", "UncentredBlend", "WithDistances", "recurrence", "time_baseline"]

Floats = NDArray[np.float64]
FEW: Final = 0.1  # share of turns in states that recur from which w rises, over a range of
RANGE: Final = 0.4
PRIOR: Final = 10.0  # rollouts' worth of the prior f = 1
DISCOUNT: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class _Combination(Scheme):
    """A weighted sum of schemes, each scaled to unit RMS over the batch.

    Attributes:
        key: key by which states are compared.
        horizon: the turn limit.
        discount: of a rollout's later steps in the baseline of time.
    """

    weights: ClassVar[Mapping[str, float]] = {"grouptd": 1.0, "gigpo": 0.5}
    centred: ClassVar[bool] = True

    key: Literal["state", "text"] = "state"
    horizon: int = 0
    discount: float = DISCOUNT

    def assign(self, group: Group) -> Credit:
        """Score a batch of one group."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score the groups of one update together."""
        total = np.zeros(sum(len(group.arrays.reward) for group in groups))
        for name, weight in self.weights.items():
            options: dict[str, Any] = {"horizon": self.horizon} if name == "grouptd" else {}
            scheme = credit.make(name, key=self.key, **options)
            of_groups = [c.flat_advantages for c in scheme.assign_batch(groups)]
            total += weight * _unit(np.concatenate(self._centre(of_groups)))
        share = float(np.clip((recurrence(groups, self.key) - FEW) / RANGE, 0.0, 1.0))
        if share < 1.0:
            of_time = np.concatenate(self._centre(time_baseline(groups, self.discount)))
            total = share * _unit(total) + (1.0 - share) * _unit(of_time)
        bounds = np.cumsum([len(group.arrays.reward) for group in groups])[:-1]
        return [
            Credit.of(group, outcome=np.zeros(group.arrays.size), step=of_group)
            for group, of_group in zip(groups, np.split(total, bounds), strict=True)
        ]

    def _centre(self, of_groups: Sequence[Floats]) -> list[Floats]:
        return [x - x.mean() for x in of_groups] if self.centred else list(of_groups)


@dataclass(frozen=True, kw_only=True)
class BlendWithLimit(_Combination):
    """``grouptd`` and half of ``gigpo``, both centred per group."""

    name = "blend_with_limit"


@dataclass(frozen=True, kw_only=True)
class UncentredBlend(_Combination):
    """``blend_with_limit`` without centring."""

    name = "blend_uncentred"
    centred: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class WithDistances(_Combination):
    """``blend_with_limit`` and half of ``graphgpo``, without centring."""

    name = "blend_distances"
    weights: ClassVar[Mapping[str, float]] = {"grouptd": 1.0, "gigpo": 0.5, "graphgpo": 0.5}
    centred: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class DiscountedOutcome(Scheme):
    """GRPO on R_i γ^T_i, the outcome discounted by the number of turns: shorter successes are better, no state is read.

    Attributes:
        discount: γ in [0, 1].
    """

    name = "grpo_discounted"
    discount: float = DISCOUNT

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome = group.arrays.score * self.discount ** np.diff(group.arrays.offsets)
        spread = float(outcome.std(ddof=1)) if len(outcome) > 1 else 0.0
        return Credit.of(group, outcome=(outcome - outcome.mean()) / spread if spread > 0.0 else np.zeros(len(outcome)))


def _unit(x: Floats) -> Floats:
    root = float(np.sqrt(np.mean(x**2)))
    return x / root if root > 0.0 else x


def recurrence(groups: Sequence[Group], key: Literal["state", "text"]) -> float:
    """Share of turns, first turns excluded, in a state that another rollout of the group visits too."""
    shared = later = 0
    for group in groups:
        states, arrays = group.states(key), group.arrays
        visits = np.unique(np.stack([states.state, arrays.trajectory]), axis=1)  # a state and a rollout that visits it
        visitors = np.bincount(visits[0], minlength=len(states.keys))
        first = np.zeros(len(states.state), np.bool_)
        first[arrays.offsets[:-1]] = True
        shared += int((visitors[states.state[~first]] > 1).sum())
        later += int((~first).sum())
    return shared / later if later else 1.0


def time_baseline(groups: Sequence[Group], discount: float) -> list[Floats]:
    """Temporal differences of V_b(t) = min(1, ρ_b f(t)), f the relative success of the batch's rollouts that act at turn t."""
    rates: list[float] = [(float(group.arrays.score.sum()) + 1.0) / (group.arrays.size + 2.0) for group in groups]
    lengths = [np.diff(group.arrays.offsets) for group in groups]
    longest = max(int(of_group.max()) for of_group in lengths)
    success, acting = np.zeros(longest), np.zeros(longest)
    for group, rate, of_group in zip(groups, rates, lengths, strict=True):
        acts = np.arange(longest) < of_group[:, None]
        success += (acts * (group.arrays.score / rate)[:, None]).sum(axis=0)
        acting += acts.sum(axis=0)
    relative = (PRIOR + success) / (PRIOR + acting)
    credits_ = []
    for group, rate in zip(groups, rates, strict=True):
        arrays = group.arrays
        turn = np.arange(len(arrays.reward)) - arrays.offsets[arrays.trajectory]
        value = np.minimum(1.0, rate * relative)
        after = np.where(arrays.last, arrays.score[arrays.trajectory], value[np.minimum(turn + 1, longest - 1)])
        delta = after - value[turn]
        factors = np.full(len(delta), discount)
        credits_.append(backward_sums(delta, arrays.offsets, factors) / np.sqrt(rate))
    return credits_


ESTIMATORS: Final[Mapping[str, type[Scheme]]] = {
    kind.name: kind for kind in (BlendWithLimit, UncentredBlend, WithDistances, DiscountedOutcome)
}


def register_estimators() -> None:
    """Make the estimators under study known by name, for this process."""
    for name, kind in ESTIMATORS.items():
        if name not in credit.names():
            register(kind)
