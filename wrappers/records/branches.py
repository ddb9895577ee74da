"""Branches: a trajectory forked from another stores only its own turns; here its full episode is assembled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["EpisodeIndex", "episode_index", "prefix"]


@dataclass(frozen=True, eq=False)
class EpisodeIndex:
    """Full episodes of a group whose N turns are stored once, even if several branches share them.

    ``x[stored]`` expands an array over stored turns to one over the turns of full episodes, and ``y[own]`` selects the
    stored turns from such an array. Without branches both are the identity.

    Attributes:
        offsets: int64 (G+1,); episode i is ``offsets[i]:offsets[i+1]`` of the M turns of all episodes.
        stored: int64 (M,), index of the stored turn of each of these.
        own: int64 (N,), position of each stored turn in the episode of the trajectory that stores it.
    """

    offsets: NDArray[np.int64]
    stored: NDArray[np.int64]
    own: NDArray[np.int64]

    @classmethod
    def joined(cls, indices: Sequence[EpisodeIndex]) -> EpisodeIndex:
        """The episodes of several groups, one group after the other."""
        if len(indices) == 1:
            return indices[0]
        offsets, stored, positions, turns, stored_turns = [], [], [], 0, 0
        for index in indices:
            offsets.append(index.offsets[:-1] + turns)
            stored.append(index.stored + stored_turns)
            positions.append(index.own + turns)
            turns += len(index.stored)
            stored_turns += len(index.own)
        offsets.append(np.array([turns]))
        return cls(np.concatenate(offsets), np.concatenate(stored), np.concatenate(positions))

    @cached_property
    def episode(self) -> NDArray[np.int32]:
        """int32 (M,): the episode of each turn."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))

    @cached_property
    def last(self) -> NDArray[np.bool_]:
        """bool (M,): whether the turn is the last of its episode."""
        last = np.zeros(len(self.stored), np.bool_)
        last[self.offsets[1:][np.diff(self.offsets) > 0] - 1] = True
        return last


def episode_index(members: Sequence[Trajectory]) -> EpisodeIndex:
    """Assemble the full episodes of a group.

    Args:
        members: trajectories of the group, whose branches fit their ancestors (see ``prefix``).
    """
    lengths = np.array([len(member.turns) for member in members], np.int64)
    before = np.array([member.fork_turn if member.parent else 0 for member in members], np.int64)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths + before)])
    if not before.any():
        stored = np.arange(first[-1])
        return EpisodeIndex(first, stored, stored)
    positions = np.arange(first[-1]) + np.repeat(offsets[1:] - first[1:], lengths)
    stored = np.zeros(int(offsets[-1]), np.int64)
    stored[positions] = np.arange(first[-1])
    numbers = {member.trajectory_id: i for i, member in enumerate(members)}
    pending = [i for i in range(len(members)) if before[i]]
    done = before == 0
    while pending:
        i = pending[-1]
        parent = numbers[members[i].parent]
        if done[i] or done[parent]:
            pending.pop()
            begin, origin, fork = int(offsets[i]), int(offsets[parent]), int(before[i])
            stored[begin : begin + fork] = stored[origin : origin + fork]
            done[i] = True
        else:
            pending.append(parent)
    return EpisodeIndex(offsets, stored, positions)


def prefix(branch: Trajectory, by_id: Mapping[str, Trajectory]) -> list[Turn]:
    """Return the turns before a branch, which its ancestors store; [] for a trajectory that is not a branch.

    Turns are numbered from the root's first one. An ancestor that is a branch itself stores turns from its fork on; a
    fork before that point is in the turns of *its* ancestors.

    Raises:
        TrajectoryError: an ancestor is missing, the ancestors form a cycle, end before the fork, or are in another state there.
    """
    pieces: list[tuple[Turn, ...]] = []
    seen, child, fork = {branch.trajectory_id}, branch, branch.fork_turn
    while child.parent:
        name = f"group {branch.group_id!r}: branch {branch.trajectory_id!r}"
        if child.parent not in by_id:
            raise TrajectoryError(f"{name}: {child.trajectory_id!r} branches from {child.parent!r}, not in the group")
        parent = by_id[child.parent]
        if parent.trajectory_id in seen:
            raise TrajectoryError(f"{name}: its ancestors form a cycle at {parent.trajectory_id!r}")
        seen.add(parent.trajectory_id)
        start = parent.fork_turn if parent.parent else 0
        if child.fork_turn > start + len(parent.turns):
            raise TrajectoryError(
                f"{name}: forked before turn {child.fork_turn}, but {parent.trajectory_id!r} ends at turn "
                f"{start + len(parent.turns)}"
            )
        pieces.append(parent.turns[: max(fork - start, 0)])
        fork, child = min(fork, start), parent
    turns = [turn for piece in reversed(pieces) for turn in piece]
    start_state = branch.turns[0].state_key if branch.turns else branch.final_state_key
    if turns and turns[-1].next_state_key != start_state:
        raise TrajectoryError(
            f"group {branch.group_id!r}: branch {branch.trajectory_id!r} begins in state {start_state!r}, but its prefix "
            f"ended in {turns[-1].next_state_key!r}"
        )
    return turns
