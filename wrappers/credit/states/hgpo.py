"""HGPO: GiGPO's step advantage over nested groups of turns whose recent histories agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.normalize import Scale, normalize
from creditflow.wrappers.credit.outcome import PenaltyScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.records.group import Group, backward_sums, number_codes

__all__ = ["HGPO", "history_groups"]

WEIGHT_EPS: Final = 1e-6  # added by the released code to the sum of the remaining weights


@register
@dataclass(frozen=True, kw_only=True)
class HGPO(StateScheme, PenaltyScheme):
    """A_t = Σ_k w_k A_t^k / Σ_k w_k with A^k = (G_t − mean) / std over all turns whose last k + 1 states agree.

    Here G_t = Σ_j γ^j r_{t+j}, w_k = (k + 1)^α, and k runs from 0 to K. Level 0 is GiGPO's group, and each level
    refines the one before. There is no outcome advantage. The formula, γ, K and α are from secondary sources that
    agree. The released code was read in two copies of the recipe. Four choices are ours, because neither specifies
    them. In paper semantics the standard deviation is that of the population, without eps. A turn with fewer than k
    states before it is compared with the turns that have the same complete history. A level in which a turn is a
    singleton gives 0 and keeps its weight. Branches count as full episodes.

    The released code differs in four ways. Its weights are (k + 2)^α. A turn has only the levels that its history
    reaches. Levels with an advantage of exactly 0 (singleton, tied, or at the mean) are dropped and the weights
    renormalised, so that after a tie at fine levels the turn gets its coarse credit in full. Finally, 0.1 is subtracted
    from the discounted return of an invalid turn.

    Attributes:
        discount: γ.
        history_length: K, number of earlier states in the finest level. The paper uses 2 and 4.
        weight_exponent: α ≥ 0. 0 weights all levels equally, a large α almost only the finest.
        levels: "paper" (our reading), or "released": w_k = (k + 2)^α, and levels of credit 0 are dropped.
        step_scale: "std", or "none" (released scripts for WebShop).
        std_eps: added to the standard deviations.
    """

    name = "hgpo"
    source = (
        "HGPO (arXiv 2602.22817). The formula is from secondary sources. Released code: recipe/hgpo of verl-agent, "
        "core_hgpo.py, lines 27 to 263"
    )
    credit_needs = "repeated states"
    verification = "secondary sources and the released code, which was read but not run"
    limitations = (
        "There is no outcome advantage, and fine levels have few members, so keys that never repeat leave almost no "
        "credit."
    )
    presets = {"paper": {}, "release": {"key": "text", "levels": "released", "std_eps": 1e-6, "invalid_penalty": 0.1}}
    properties = frozenset({"all_fail_zero", "branches", "one_member_zero", "permutation", "scale", "ties_zero"})
    ranges = {
        "discount": "[0, 1]",
        "std_eps": "[0, inf)",
        # longer histories than in any prompt; larger powers of it would overflow
        "history_length": "[0, 64]",
        "weight_exponent": "[0, 64]",
    }

    discount: float = 0.95
    history_length: int = 2
    weight_exponent: float = 1.0
    levels: Literal["paper", "released"] = "paper"
    step_scale: Scale = "std"
    std_eps: float = 0.0

    @property
    def released_form(self) -> bool:
        """Whether levels count as in the released code."""
        return self.levels == "released"

    def weight(self, level: int) -> float:
        """w_k, the weight of the comparison that looks back k states."""
        return float((level + (2 if self.released_form else 1)) ** self.weight_exponent)

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        episodes = group.episode_index
        penalties = self.penalties(group)
        rewards = group.arrays.reward[episodes.stored]
        returns = backward_sums(rewards, episodes.offsets, self.discount)
        scores = returns - penalties[episodes.stored]
        magnitude = backward_sums(np.abs(rewards), episodes.offsets, self.discount) + penalties[episodes.stored]
        position = episodes.number[episodes.own]
        total, weights = np.zeros(len(group.arrays.reward)), np.zeros(len(group.arrays.reward))
        states = self.states(group).state[episodes.stored]
        levels = list(history_groups(states, episodes.offsets, self.history_length))
        firsts = np.cumsum([0, *(size for _, size in levels)])
        every = normalize(  # all levels at once: the groups of different levels are different groups
            np.tile(scores, len(levels)),
            np.concatenate([labels + first for (labels, _), first in zip(levels, firsts.tolist(), strict=False)]),
            int(firsts[-1]),
            scale=self.step_scale,
            std_eps=self.std_eps,
            std_kind="population",
            magnitude=np.tile(magnitude, len(levels)),
            quantity="discounted return",
            rows=np.tile(episodes.stored, len(levels)),
        )
        for level, compared in enumerate(every.reshape(len(levels), -1)[:, episodes.own]):
            counted = (position >= level) & (compared != 0.0) if self.released_form else True
            weight = np.where(counted, self.weight(level), 0.0)
            total = total + weight * compared
            weights = weights + weight
        eps = WEIGHT_EPS if self.released_form else 0.0
        step = np.divide(total, weights + eps, out=np.zeros_like(total), where=weights > 0.0)
        return Credit.of(
            group,
            step={"weighted mean over levels of history": step},
            rewards=returns[episodes.own],
            diagnostics={"history_group": levels[-1][0][episodes.own], "step_advantage": step},
        )


def history_groups(
    state: NDArray[np.integer], offsets: NDArray[np.int64], length: int
) -> Iterator[tuple[NDArray[np.int32], int]]:
    """For k = 0 … length, number the turns by their last k + 1 states, in time linear in turns except for sorting.

    A history begins with its episode: a turn with fewer than k + 1 states so far shares a group only with turns whose episode
    began with the same states, never with later turns of another. Hence each level refines the one before it.

    >>> for groups, size in history_groups(np.array([0, 1, 0, 1, 0, 1]), np.array([0, 2, 6]), 2):
    ...     print(groups, size)
    [0 1 0 1 0 1] 2
    [0 1 0 1 2 1] 3
    [0 1 0 1 2 3] 4

    Args:
        state: int (M,), the state of each turn, one episode after the other.
        offsets: int64 (G+1,). Episode i is ``offsets[i]:offsets[i+1]``.
        length: K ≥ 0, number of states before the current one.

    Yields:
        int32 (M,), the group of each turn, and the number of groups.
    """
    first = np.zeros(len(state), np.bool_)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    labels, size = _numbered(state.astype(np.int64))
    present, n_states = labels, size
    yield labels, size
    for _ in range(length):
        before = np.zeros(len(labels), np.int64)  # 0: the episode begins here
        before[1:] = labels[:-1] + 1
        before[first] = 0
        labels, size = _numbered(before * n_states + present)
        yield labels, size


def _numbered(x: NDArray[np.int64]) -> tuple[NDArray[np.int32], int]:
    values, numbers = number_codes(x)
    return numbers.astype(np.int32), len(values)
