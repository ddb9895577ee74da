"""Blend (ours): grouptd and half of gigpo, both centred in each group, with a baseline by time for keys that never recur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.outcome import PenaltyScheme, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.gigpo import GiGPO
from creditflow.wrappers.credit.states.grouptd import GroupTD
from creditflow.wrappers.credit.states.keys import StateScheme, without_contrast
from creditflow.wrappers.records.group import Group, backward_sums, distinct

__all__ = ["Blend"]

Floats = NDArray[np.float64]
_TIME_LAMBDA: Final = 0.9  # λ of the baseline by time
GIGPO_WEIGHT: Final = 0.5  # ω
PRIOR_WEIGHT: Final = 10.0  # n₀, in rollouts


@register
@dataclass(frozen=True, kw_only=True)
class Blend(StateScheme, PenaltyScheme):
    """A = w u(u(c̃) + ω u(g̃)) + (1 − w) u(τ̃): c is grouptd's credit, g gigpo's advantage, τ one against a baseline by time.

    x̃ is x minus its mean over the turns of the group, u(x) is x divided by its root mean square over the batch (0
    where x is). w = clip((q − .1) / .4, 0, 1), where q is the share of turns, first ones excluded, whose key another
    rollout of the group visits too. If keys do not recur, states carry no information, and the time baseline replaces
    them, except in groups without contrast (rollouts through the same states to the same end), whose credit is 0:

        f(t) = (n₀ + Σ_i R_i / ρ) / (n₀ + n_t) over all groups, n_t the rollouts of the batch that act at turn t,
        V(t) = min(1, ρ f(t)),   δ_t = V(t + 1) − V(t), after the last turn R_i − V(t),
        τ_t = T_t / √ρ,   T_t = δ_t + .9 T_{t+1},   ρ = (Σ_i R_i + 1) / (G + 2) of the group.

    Division by each coordinate's root mean square, as in Adam, undoes the weighting of states by which ``grouptd``
    leads with plain gradients, and centring over the batch punishes groups without a success. For these reasons there
    is one scale for the batch, but a separate mean for each group. The constants were chosen in one suite of tasks with
    linear policies over features.
    """

    name = "blend"
    source = "our own: grouptd and gigpo (arXiv 2505.10978), centred in each group and scaled over the batch"
    credit_needs = "a success"
    verification = "values worked out by hand (the scheme is ours)"
    limitations = (
        "The scale of a group's credit depends on the batch. If keys do not recur, turns that few rollouts reach "
        "have a higher baseline, so a longer failure gets less blame for its first turn, even in groups without a "
        "success. The scheme was designed with linear policies on one suite. In small language models it was level "
        "with grouptd, not above it."
    )
    properties = frozenset({"batch_permutation", "permutation"})

    @property
    def couples_groups(self) -> bool:
        """Scales and the baseline by time are those of the batch."""
        return True

    def assign(self, group: Group) -> Credit:
        """Score one group, scaled alone."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups, scaled together."""
        contrast = [not self._without_contrast(group) for group in groups]
        by_value = _centred([c.flat_advantages for c in GroupTD(key=self.key).assign_batch(groups)])
        by_return = _masked(_centred([c.flat_advantages for c in GiGPO(key=self.key).assign_batch(groups)]), contrast)
        by_state = _scaled(_sum(_scaled(by_value), [GIGPO_WEIGHT * x for x in _scaled(by_return)]))
        by_time = _scaled(_masked(_centred(self._time_advantages(groups)), contrast))
        recurring = self._recurring(groups)
        weight = min(max((recurring - 0.1) / 0.4, 0.0), 1.0)
        return [
            Credit.of(
                group,
                step={
                    "grouptd and gigpo, centred and scaled": weight * states,
                    "baseline by time": (1.0 - weight) * time,
                    "penalty": -self.penalties(group),
                },
                aggregation="token_mean",
                diagnostics={"recurring": recurring, "weight": weight},
            )
            for group, states, time in zip(groups, by_state, by_time, strict=True)
        ]

    def _without_contrast(self, group: Group) -> bool:
        return without_contrast(group, self.states(group), outcome_scores(group, "score"))

    def _time_advantages(self, groups: Sequence[Group]) -> list[Floats]:
        """Of each group float64 (N,): τ."""
        scores = [outcome_scores(group, "score") for group in groups]
        rates = [(x.sum() + 1.0) / (len(x) + 2.0) for x in scores]
        lengths = np.concatenate([np.diff(group.episode_index.offsets) for group in groups])
        relative = np.concatenate([x / rate for x, rate in zip(scores, rates, strict=True)])
        acting = np.arange(int(lengths.max(initial=0)))[:, None] < lengths  # turn t, rollout
        level = (PRIOR_WEIGHT + acting @ relative) / (PRIOR_WEIGHT + acting.sum(axis=1))
        advantages = []
        for group, score, rate in zip(groups, scores, rates, strict=True):
            arrays = group.arrays
            value = np.append(np.minimum(1.0, rate * level), 0.0)
            number = group.episode_index.number[group.episode_index.own]
            delta = np.where(arrays.last, score[arrays.trajectory], value[number + 1]) - value[number]
            advantages.append(backward_sums(delta, arrays.offsets, _TIME_LAMBDA) / np.sqrt(rate))
        return advantages

    def _recurring(self, groups: Sequence[Group]) -> float:
        """q: the share of the batch's turns after first ones whose key another rollout of the group visits."""
        shared = turns = 0
        for group in groups:
            episodes, states = group.episode_index, self.states(group)
            state = states.state[episodes.stored]
            pair, _ = distinct(episodes.episode.astype(np.int64) * max(len(states.keys), 1) + state)
            rollouts = np.bincount(pair % max(len(states.keys), 1), minlength=len(states.keys))
            later = np.ones(len(state), np.bool_)
            later[episodes.offsets[:-1][np.diff(episodes.offsets) > 0]] = False
            shared += int((rollouts[state[later]] > 1).sum())
            turns += int(later.sum())
        return shared / turns if turns else 0.0


def _centred(credit: Sequence[Floats]) -> list[Floats]:
    """Each group's credit minus its mean."""
    return [x - x.mean() if len(x) else x for x in credit]


def _masked(credit: Sequence[Floats], contrast: Sequence[bool]) -> list[Floats]:
    """Zero in groups without contrast."""
    return [x if differs else np.zeros_like(x) for x, differs in zip(credit, contrast, strict=True)]


def _scaled(credit: Sequence[Floats]) -> list[Floats]:
    """Divided by the root mean square over the batch, or 0 if that is rounding noise."""
    joined = np.concatenate([np.zeros(0), *credit])
    size = float(np.sqrt(np.mean(joined**2))) if len(joined) else 0.0
    return [x / size if size > 1e-12 else np.zeros_like(x) for x in credit]


def _sum(a: Sequence[Floats], b: Sequence[Floats]) -> list[Floats]:
    return [x + y for x, y in zip(a, b, strict=True)]
