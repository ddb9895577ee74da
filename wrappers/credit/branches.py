"""What trajectories share: turns before a fork are stored once, but led to every end that came of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["share_prefixes"]


def share_prefixes(group: Group, credit: Credit) -> Credit:
    """Credit whose shared turns have the mean outcome advantage of all trajectories that went through them.

    The step part is left alone; groups without branches are returned as they are. With token advantages, the tokens
    of a turn move by as much as the turn. (ARPO, arXiv 2507.19849, section 3.2, averages shared tokens like this.)

    Args:
        group: perhaps with branches.
        credit: of this group.
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
        while True:  # the turns of each ancestor from its own first to where the way left it
            own = slice(int(offsets[at]), int(offsets[at] + max(last - first[at], 0)))
            total[own] += outcome[i]
            count[own] += 1.0
            if not ancestor.parent:
                break
            last = min(last, first[at])
            at = numbers[ancestor.parent]
            ancestor = members[at]
    change = total / np.maximum(count, 1.0) - np.repeat(outcome, np.diff(offsets))
    tokens = credit.token_advantages
    if tokens is not None:
        tokens = tuple(
            one + _per_token(members[i], change[offsets[i] : offsets[i + 1]]) for i, one in enumerate(tokens)
        )
    return replace(credit, flat_step_advantages=credit.flat_step_advantages + change, token_advantages=tokens)


def _per_token(trajectory: Trajectory, change: NDArray[np.float64]) -> NDArray[np.float64]:
    """One number per turn (T,) to one per model token (n,)."""
    tokens = trajectory.tokens
    if tokens is None:
        return np.zeros(0)
    before = np.concatenate([[0], np.cumsum(tokens.mask)])
    return np.repeat(change, np.diff(before[tokens.turn_offsets]))
