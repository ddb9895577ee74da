"""Groups: the trajectories of one task, the unit on which credit schemes work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError, short_repr, unknown_name_error
from creditflow.wrappers.records.arrays import GroupArrays, StateIndex, frozen, number_keys, number_paths, split_flat
from creditflow.wrappers.records.branches import EpisodeIndex, episode_index, prefix
from creditflow.wrappers.records.trajectory import Trajectory, Turn, fsum_rewards, is_number

__all__ = ["Group", "collect_trajectories", "group_trajectories"]


@dataclass(frozen=True)
class Group:
    """Trajectories of one task: the unit on which schemes work.

    Attributes:
        trajectories: at least one, all of one group, task and trial.
        task: payload of the task (question, answers, entity graph, …), for schemes that need it.

    Raises:
        TrajectoryError: members of different groups, tasks or trials; repeated ids; a branch without its parent.
    """

    trajectories: tuple[Trajectory, ...]
    task: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "trajectories", tuple(self.trajectories))
        if not self.trajectories:
            raise TrajectoryError("a group needs at least one trajectory")
        first = self.trajectories[0]
        for member in self.trajectories:
            if (member.group_id, member.task_id) != (first.group_id, first.task_id):
                raise TrajectoryError(
                    f"a group consists of rollouts of one task: {first.trajectory_id!r} has group {first.group_id!r}, task "
                    f"{first.task_id!r}; {member.trajectory_id!r} has {member.group_id!r}, {member.task_id!r}"
                )
            if member.trial != first.trial:
                raise TrajectoryError(
                    f"group {first.group_id!r} mixes trial {first.trial} and trial {member.trial}: attempts that learn "
                    "from earlier ones are not independent samples; make one group per trial"
                )
        ids = {trajectory.trajectory_id for trajectory in self.trajectories}
        if len(ids) != len(self.trajectories):
            raise TrajectoryError(f"group {first.group_id!r}: a trajectory_id occurs twice")
        if any(trajectory.parent for trajectory in self.trajectories):
            by_id = {trajectory.trajectory_id: trajectory for trajectory in self.trajectories}
            for member in self.trajectories:
                prefix(member, by_id)

    @property
    def group_id(self) -> str:
        """Id of the group."""
        return self.trajectories[0].group_id

    @property
    def task_id(self) -> str:
        """Id of the task."""
        return self.trajectories[0].task_id

    def __len__(self) -> int:
        return len(self.trajectories)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """All N turns in order."""
        return tuple(chain.from_iterable([trajectory.turns for trajectory in self.trajectories]))

    @cached_property
    def arrays(self) -> GroupArrays:
        """The group as arrays; cached."""
        turns = self.turns
        lengths = np.array([len(trajectory.turns) for trajectory in self.trajectories], np.int64)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        n = len(turns)
        keys: list[str] = []
        for trajectory in self.trajectories:
            if trajectory.turns:  # each turn ends in the state in which the next one begins
                keys += [turn.state_key for turn in trajectory.turns]
                keys.append(trajectory.final_state_key)
        actions, action = number_keys([t.action_key or t.action for t in turns])
        parsed = np.fromiter([t.parsed for t in turns], np.bool_, n)
        admissible = np.fromiter([t.admissible for t in turns], np.bool_, n)
        reward = np.fromiter([t.reward for t in turns], np.float64, n)
        last = np.zeros(n, np.bool_)
        last[offsets[1:][lengths > 0] - 1] = True
        members = self.trajectories
        return GroupArrays(
            states=number_paths(keys, lengths),
            actions=actions,
            action=frozen(action),
            reward=frozen(reward),
            cost=frozen(np.fromiter([t.cost for t in turns], np.float64, n)),
            parsed=frozen(parsed),
            valid=frozen(parsed & admissible),
            effective=frozen(np.fromiter([t.effective for t in turns], np.bool_, n)),
            trajectory=frozen(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)),
            last=frozen(last),
            offsets=frozen(offsets),
            end=frozen(np.fromiter((m.end for m in members), np.int8, len(members))),
            success=frozen(np.fromiter((m.success for m in members), np.bool_, len(members))),
            score=frozen(np.fromiter((m.score for m in members), np.float64, len(members))),
            returns=frozen(self._returns(reward)),
        )

    @cached_property
    def first_turns(self) -> NDArray[np.int64]:
        """int64 (G,): number of turns before each trajectory's first own turn (``fork_turn`` for a branch, else 0)."""
        return np.array([m.fork_turn if m.parent else 0 for m in self.trajectories], np.int64)

    @cached_property
    def episode_index(self) -> EpisodeIndex:
        """The turns of full episodes as indices of stored turns: a branch begins with the turns that its ancestors store."""
        return episode_index(self.trajectories)

    @cached_property
    def episodes(self) -> tuple[tuple[Turn, ...], ...]:
        """G tuples: the turns of full episodes; a branch begins with the turns that its ancestors store."""
        index, turns = self.episode_index, self.turns
        spans = zip(index.offsets[:-1].tolist(), index.offsets[1:].tolist(), strict=True)
        episodes = []
        for member, (first, end) in zip(self.trajectories, spans, strict=True):
            full = tuple(turns[i] for i in index.stored[first:end].tolist()) if member.parent else member.turns
            episodes.append(full)
        return tuple(episodes)

    def annotation(self, name: str) -> NDArray[np.float64]:
        """float64 (N,): an annotation of every turn; nan where it is missing.

        Raises:
            TrajectoryError: an annotation is not a number.
        """
        missing = np.nan
        numbers = [turn.values.get(name, missing) for turn in self.turns]
        try:
            if not any(isinstance(number, str) for number in numbers):  # NumPy would parse strings
                return np.array(numbers, np.float64)
        except (TypeError, ValueError, OverflowError):
            pass
        wrong = next(number for number in numbers if number is not missing and not is_number(number))
        raise TrajectoryError(
            f"group {self.group_id!r}: the annotation {name!r} must be numbers, got {short_repr(wrong)}"
        )

    @cached_property
    def token_counts(self) -> NDArray[np.int64]:
        """int64 (N,): number of model tokens of each turn; 1 for turns of agents without tokens."""
        counts = [np.zeros(0, np.int64)]
        for trajectory in self.trajectories:
            tokens = trajectory.tokens
            if tokens is None:
                counts.append(np.ones(len(trajectory.turns), np.int64))
            else:
                before = np.concatenate([[0], np.cumsum(tokens.mask)])
                counts.append(np.diff(before[tokens.turn_offsets]))
        return frozen(np.concatenate(counts).astype(np.int64))

    def prefix(self, index: int) -> tuple[Turn, ...]:
        """Return the turns before a branch's first own turn; () for a trajectory that is not a branch."""
        return self.episodes[index][: int(self.first_turns[index])]

    def states(self, key: Literal["state", "text"] = "state") -> StateIndex:
        """Return the states by state key or by text key.

        Raises:
            TrajectoryError: ``key="text"`` but the log has no text keys.
            ConfigError: ``key`` has another value.
        """
        if key not in ("state", "text"):
            raise unknown_name_error("value of key", str(key), ["state", "text"])
        return self.arrays.states if key == "state" else self._text_states

    @cached_property
    def _text_states(self) -> StateIndex:
        path: list[str] = []
        for trajectory in self.trajectories:
            keys = [turn.text_key for turn in trajectory.turns]
            if keys and not (keys[0] or (trajectory.parent and any(keys))):
                raise TrajectoryError(
                    f"trajectory {trajectory.trajectory_id!r} has turns without text_key: key='text' needs text keys: "
                    "record them with Recorder or use key='state'"
                )
            # later texts may be empty and are then a state like any other: the observation of the released search
            # environment is empty at the end of an episode and after a malformed answer
            path += [*keys, trajectory.final_text_key] if keys else []
        return number_paths(path, np.diff(self.arrays.offsets))

    def _returns(self, reward: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (G,): sum of the rewards of each full episode, from those of the stored turns (N,)."""
        index = self.episode_index
        sums = [
            fsum_rewards(episode.tolist(), trajectory.trajectory_id)
            for trajectory, episode in zip(
                self.trajectories, split_flat(reward[index.stored], index.offsets), strict=True
            )
        ]
        return np.array(sums)


def group_trajectories(
    trajectories: Iterable[Trajectory],
    by: Literal["group", "task"] = "group",
    tasks: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Group]:
    """Collect trajectories into groups, in order of first appearance.

    Args:
        trajectories: trajectories in any order.
        by: "group" (by ``group_id``) or "task": all rollouts of a task form one group.
        tasks: payloads by task id.
    """
    groups = []
    for members in collect_trajectories(trajectories, by):
        regrouped = members if by == "group" else _regroup(members)
        groups.append(Group(tuple(regrouped), (tasks or {}).get(members[0].task_id, {})))
    return groups


def collect_trajectories(
    trajectories: Iterable[Trajectory], by: Literal["group", "task"] = "group"
) -> list[list[Trajectory]]:
    """Collect the trajectories of each group, in order of first appearance; trials stay separate.

    Raises:
        ConfigError: ``by`` has another value.
    """
    if by not in ("group", "task"):
        raise unknown_name_error("value of by", str(by), ["group", "task"])
    buckets: dict[tuple[str, int], list[Trajectory]] = {}
    for trajectory in trajectories:
        name = trajectory.task_id if by == "task" else trajectory.group_id
        buckets.setdefault((name, trajectory.trial), []).append(trajectory)
    return list(buckets.values())


def _regroup(members: list[Trajectory]) -> list[Trajectory]:
    """Put trajectories of several groups of one task into one, named by the task; ids stay unique."""
    ids = {m.trajectory_id for m in members}
    if len(ids) == len(members):
        return [replace(m, group_id=m.task_id) for m in members]
    return [
        replace(
            m,
            group_id=m.task_id,
            trajectory_id=f"{m.group_id}/{m.trajectory_id}",
            parent=f"{m.group_id}/{m.parent}" if m.parent else "",
        )
        for m in members
    ]
