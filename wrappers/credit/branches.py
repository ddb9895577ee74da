"""Credit of shared prefixes: turns before a fork are stored once but belong to several episodes.

A scheme gives such a turn the number that it has in the episode of the trajectory that stores it. Which one stores it says nothing
about the turn, so whatever hands numbers on (the trainer, adapters, commands, explanations) takes them from ``registry.assigned``.

Let d trajectories share a turn (s, a), forked at points that do not depend on what follows. Given (s, a), their outcomes have one
distribution, and the outcome advantage A_i of each estimates Q(s, a) − V(s) alike. So does the mean of A_1, …, A_d, with up to d times
less variance, and it does not depend on which trajectory stores the turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import STEP, Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["share_prefixes"]


def share_prefixes(group: Group, credit: Credit, combine: Literal["mean", "sum"] = "mean") -> Credit:
    """Give shared turns the outcome advantages of all trajectories that pass through them.

    With "mean" step advantages are unchanged, and token advantages move by as much as the advantage of their turn. With
    "sum" all advantages of a turn that d trajectories share are d times those of "mean", since the turn is stored once: its
    gradient, summed over tokens, is that of ARPO's hard advantage estimate (arXiv 2507.19849, section 3.2), in which shared tokens
    stand in d rows, each with their mean advantage. A loss that divides by tokens or rows counts the stored ones, fewer than ARPO's.
    The credit of turns that one trajectory alone has is unchanged.

    Args:
        group: a group, possibly with branches.
        credit: the credit of this group.
        combine: "mean" or "sum".
    """
    members = group.trajectories
    if not any(member.parent for member in members):
        return credit
    numbers = {member.trajectory_id: i for i, member in enumerate(members)}
    outcome, first = credit.outcome_advantages, group.first_turns
    offsets = group.arrays.offsets
    total, count = np.zeros(len(group.turns)), np.zeros(len(group.turns))
    for i, member in enumerate(members):
        last = first[i] + len(member.turns)
        at, ancestor = i, member
        while True:  # the turns of each ancestor from its own first one to the fork
            span = slice(int(offsets[at]), int(offsets[at] + max(last - first[at], 0)))
            total[span] += outcome[i]
            count[span] += 1.0
            if not ancestor.parent:
                break
            last = min(last, first[at])
            at = numbers[ancestor.parent]
            ancestor = members[at]
    own_outcome, count = np.repeat(outcome, np.diff(offsets)), np.maximum(count, 1.0)
    change = total / count - own_outcome
    times = count if combine == "sum" else np.ones_like(count)
    step = times * (credit.flat_step_advantages + change) + (times - 1.0) * own_outcome
    tokens = credit.token_advantages
    if tokens is not None:
        spans = [slice(offsets[i], offsets[i + 1]) for i in range(len(members))]
        tokens = tuple(
            (advantages + _per_token(members[i], change[spans[i]])) * _per_token(members[i], times[spans[i]])
            for i, advantages in enumerate(tokens)
        )
    terms = {
        **(credit.step_terms or {STEP: credit.flat_step_advantages}),
        "other branches of shared turns": step - credit.flat_step_advantages,
    }
    return replace(credit, flat_step_advantages=step, token_advantages=tokens, step_terms=terms)


def _per_token(trajectory: Trajectory, change: NDArray[np.float64]) -> NDArray[np.float64]:
    """Broadcast one number per turn (T,) to the model tokens (n,)."""
    tokens = trajectory.tokens
    if tokens is None:
        return np.zeros(0)
    before = np.concatenate([[0], np.cumsum(tokens.mask)])
    return np.repeat(change, np.diff(before[tokens.turn_offsets]))
