"""Branches: a trajectory forked from another stores only its own turns; here its whole history is put together."""

from __future__ import annotations

from collections.abc import Mapping

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.records import Trajectory, Turn

__all__ = ["prefix"]


def prefix(branch: Trajectory, by_id: Mapping[str, Trajectory]) -> list[Turn]:
    """The turns before a branch, which its ancestors store; [] for a trajectory that is no branch.

    Turns are numbered from the root's first. An ancestor that is a branch itself owns turns from its fork on; a fork
    before that point lies in the turns of *its* ancestors.

    Raises:
        TrajectoryError: the ancestors are not all there, form a cycle, end before the fork, or are elsewhere then.
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
    began = branch.turns[0].state_key if branch.turns else branch.final_state_key
    if turns and turns[-1].next_state_key != began:
        raise TrajectoryError(
            f"group {branch.group_id!r}: branch {branch.trajectory_id!r} begins in state {began!r}, but its prefix "
            f"ended in {turns[-1].next_state_key!r}"
        )
    return turns
