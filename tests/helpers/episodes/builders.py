"""Short notation for hand-made rollouts of worked examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn


def walk(
    path: str | Sequence[str],
    end: StopReason = "success",
    *,
    name: str = "",
    reward: float | None = None,
    rewards: Sequence[float] = (),
    actions: Sequence[str] = (),
    costs: Sequence[float] = (),
    invalid: Sequence[int] = (),
    **fields: Any,
) -> Trajectory:
    """A rollout through named states: ``walk("s a g")`` takes two turns and succeeds.

    Args:
        path: states, as a list or separated by spaces.
        end: stop reason.
        name: trajectory id; default the path itself.
        reward: of the last turn; default 1 for success and 0 else.
        rewards: of every turn, instead of ``reward``.
        actions: of every turn; default "to NEXT".
        costs: of every turn; default 1.
        invalid: turns that could not be parsed.
        **fields: further fields of the trajectory.
    """
    states = path.split() if isinstance(path, str) else list(path)
    last = len(states) - 2
    final = float(end == "success") if reward is None else reward
    turns = tuple(
        Turn(
            a,
            actions[t] if actions else f"to {b}",
            b,
            reward=rewards[t] if rewards else final if t == last else 0.0,
            cost=costs[t] if costs else 1.0,
            parsed=t not in invalid,
            effective=a != b,
        )
        for t, (a, b) in enumerate(pairwise(states))
    )
    return Trajectory(
        trajectory_id=name or " ".join(states),
        group_id="g",
        task_id="task",
        turns=turns,
        success=end == "success",
        score=float(end == "success"),
        stop_reason=end,
        final_state_key=states[-1],
        **fields,
    )


def annotated(trajectory: Trajectory, values: Mapping[str, Sequence[float]]) -> Trajectory:
    """Add annotations by name: T numbers for the turns, or T + 1 before and after them (``NAME.next``)."""
    turns = list(trajectory.turns)
    for name, numbers in values.items():
        for t, turn in enumerate(turns):
            after = {f"{name}.next": numbers[t + 1]} if len(numbers) == len(turns) + 1 else {}
            turns[t] = replace(turn, values={**turn.values, name: numbers[t], **after})
    return replace(trajectory, turns=tuple(turns))


def group(*trajectories: Trajectory) -> Group:
    """A group of rollouts; repeated ids are numbered."""
    seen: dict[str, int] = {}
    members = []
    for trajectory in trajectories:
        count = seen[trajectory.trajectory_id] = seen.get(trajectory.trajectory_id, -1) + 1
        members.append(
            replace(trajectory, trajectory_id=f"{trajectory.trajectory_id} #{count}") if count else trajectory
        )
    return Group(tuple(members))
