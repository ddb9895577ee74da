"""GroupTD's prior by distance, fitted to the outcomes of all groups of a batch instead of assumed.

The distances come from one half of each group's rollouts, the outcomes from the other half (cross-fitting): a successful
rollout shortens the distances of its own states, so with its own outcome the fit would be biased.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.states.reward_process import RewardProcess
from creditflow.wrappers.records.arrays import distinct
from creditflow.wrappers.records.branches import EpisodeIndex
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["halves", "pooled_levels", "visits_by_distance"]

Floats = NDArray[np.float64]
Visits = tuple[NDArray[np.int64], Floats]


def halves(members: Sequence[Trajectory]) -> NDArray[np.bool_]:
    """bool (G,): a split of a group's rollouts into two halves that does not depend on their order.

    Independent rollouts, sorted by ``trajectory_id``, alternate between the halves. A branch is in the half of the trajectory
    with which it shares turns, because they are not independent.

    >>> from creditflow.wrappers.trajectory import Turn
    >>> a, b, c = (Trajectory(i, "g", "t", (Turn("s", "go", "s"),), False, 0.0, "failed", "s") for i in "abc")
    >>> halves([c, a, b]).tolist()
    [False, False, True]
    """
    by_id = {member.trajectory_id: member for member in members}
    roots: dict[str, str] = {}
    for member in members:
        line = [member]
        while line[-1].trajectory_id not in roots and line[-1].parent and line[-1].fork_turn > 0:
            line.append(by_id[line[-1].parent])
        root = roots.get(line[-1].trajectory_id, line[-1].trajectory_id)
        roots.update((one.trajectory_id, root) for one in line)
    rank = {root: i for i, root in enumerate(sorted(set(roots.values())))}
    return np.array([rank[roots[member.trajectory_id]] % 2 == 1 for member in members], np.bool_)


def visits_by_distance(process: RewardProcess, groups: Sequence[Group]) -> Visits:
    """Visits to states from which the other half of a group reached success; each rollout and state once.

    Args:
        process: the process of the groups.
        groups: some groups.

    Returns:
        int64 (M,), hops to success on the edges of the other half, and float64 (M,), R_i / ρ of the visiting rollout.
    """
    episodes = EpisodeIndex.joined([group.episode_index for group in groups])
    second = np.concatenate([halves(group.trajectories) for group in groups])
    code, _ = distinct(episodes.episode.astype(np.int64) * process.size + process.state[episodes.stored])
    rollout, state = np.divmod(code, max(process.size, 1))
    half = second[process.trajectory]
    hops = np.where(second[rollout], process.hops(~half)[state], process.hops(half)[state])
    known = np.isfinite(hops)
    rate = np.repeat(process.success_rate, np.diff(process.members))
    return hops[known].astype(np.int64), (process.outcome / rate)[rollout[known]]


def pooled_levels(visits: Sequence[Visits], discount: float, weight: float) -> Floats:
    """f(d) = [w γ^d + Σ R_i/ρ] / [w + n_d] over the n_d visits of a batch at distance d, up to the largest d of any.

    Args:
        visits: the values of ``visits_by_distance`` for each group.
        discount: γ.
        weight: w > 0.
    """
    distance = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in visits)])
    ratio = np.concatenate([np.zeros(0), *(one for _, one in visits)])
    count = np.bincount(distance)
    levels: Floats = (weight * discount ** np.arange(len(count)) + np.bincount(distance, ratio)) / (weight + count)
    return levels


def by_distance(hops: Floats, discount: float, levels: Floats | None = None) -> Floats:
    """γ^d, or f(d) where ``levels`` has it; 0 where no success can be reached.

    >>> by_distance(np.array([0.0, 1.0, 2.0, np.inf]), 0.5, np.array([1.0, 0.7]))
    array([1.  , 0.7 , 0.25, 0.  ])
    """
    known = np.isfinite(hops)
    finite = np.where(known, hops, 0.0)
    value = discount**finite
    if levels is not None and len(levels):
        at = finite.astype(np.int64)
        value = np.where(at < len(levels), levels[np.minimum(at, len(levels) - 1)], value)
    return np.where(known, value, 0.0)
