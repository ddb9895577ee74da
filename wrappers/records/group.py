"""Groups: the trajectories of one task, the unit on which credit schemes work, and the read-only arrays that schemes read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError, short_repr, unknown_name_error
from creditflow.wrappers.records.trajectory import Trajectory, Turn, fsum_rewards, is_number

__all__ = [
    "EpisodeIndex",
    "Group",
    "GroupArrays",
    "StateIndex",
    "backward_sums",
    "collect_trajectories",
    "distinct",
    "episode_index",
    "frozen",
    "group_trajectories",
    "number_codes",
    "number_keys",
    "number_paths",
    "prefix",
    "run_lengths",
    "run_starts",
    "split_flat",
]


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


# ---- the arrays of a group ----


@dataclass(frozen=True, slots=True, eq=False)
class StateIndex:
    """The states of a group, in order of first appearance.

    Attributes:
        keys: V distinct keys.
        state, next_state: int32 (N,), the state before and after each turn.
    """

    keys: tuple[str, ...]
    state: NDArray[np.int32]
    next_state: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class GroupArrays:
    """A group as arrays: N turns of G trajectories, in order; trajectory i is ``offsets[i]:offsets[i+1]``.

    Attributes:
        states: distinct state keys and their indices (N,).
        actions: distinct action keys.
        action: int32 (N,), index into ``actions``.
        reward, cost: float64 (N,).
        parsed, valid, effective: bool (N,).
        trajectory: int32 (N,), the trajectory of each turn.
        last: bool (N,), whether the turn is the last of its trajectory.
        offsets: int64 (G+1,).
        end: int8 (G,), GOAL, FAILED or TRUNCATED.
        success: bool (G,).
        score, returns: float64 (G,); the return of a branch includes its prefix.
    """

    states: StateIndex
    actions: tuple[str, ...]
    action: NDArray[np.int32]
    reward: NDArray[np.float64]
    cost: NDArray[np.float64]
    parsed: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    effective: NDArray[np.bool_]
    trajectory: NDArray[np.int32]
    last: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    end: NDArray[np.int8]
    success: NDArray[np.bool_]
    score: NDArray[np.float64]
    returns: NDArray[np.float64]

    @property
    def state(self) -> NDArray[np.int32]:
        """int32 (N,), the state before each turn."""
        return self.states.state

    @property
    def next_state(self) -> NDArray[np.int32]:
        """int32 (N,), the state after each turn."""
        return self.states.next_state

    @property
    def size(self) -> int:
        """G, the number of trajectories."""
        return len(self.offsets) - 1

    def split(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        """Split a flat (N, …) array into G arrays (T_i, …)."""
        return split_flat(flat, self.offsets)


def split_flat(flat: NDArray[Any], offsets: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Split a flat array into views: trajectory i is ``offsets[i]:offsets[i+1]``."""
    return [flat[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only: all schemes share one copy, which none may change."""
    array.flags.writeable = False
    return array


def number_keys(keys: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Distinct keys in order of first appearance, and int32 (N,), the index of each key among them."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return tuple(numbers), np.fromiter(map(numbers.__getitem__, keys), np.int32, len(keys))


def number_paths(keys: Sequence[str], lengths: NDArray[np.int64]) -> StateIndex:
    """Index the states of trajectories.

    Args:
        keys: state keys of every trajectory that has turns, one trajectory after another: before each turn, and after the
            last one.
        lengths: int64 (G,), number of turns of each trajectory.
    """
    distinct_keys, number = number_keys(keys)
    earlier_ends = np.cumsum(lengths > 0) - 1  # ends of trajectories among the keys before the turns of each
    before = np.arange(int(lengths.sum())) + np.repeat(earlier_ends, lengths)
    return StateIndex(distinct_keys, frozen(number[before]), frozen(number[before + 1]))


def distinct(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct codes, ascending, and the count of each, by one sort (much faster than ``np.unique`` for a few hundred codes).

    >>> distinct(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 2]))

    Args:
        codes: int64 (N,).
    """
    ordered = np.sort(codes)
    first = run_starts(ordered)
    return ordered[first], run_lengths(first, len(codes))


def number_codes(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct codes, ascending, and int64 (N,), the index of each code among them.

    >>> number_codes(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))

    Args:
        codes: int64 (N,).
    """
    order = np.argsort(codes)
    ordered = codes[order]
    first = run_starts(ordered)
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.repeat(np.arange(len(first)), run_lengths(first, len(codes)))
    return ordered[first], numbers


def run_starts(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index of the first of each run of equal codes.

    >>> run_starts(np.array([3, 3, 7]))
    array([0, 2])

    Args:
        ordered: int64 (N,), equal codes side by side.
    """
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new.nonzero()[0]


def run_lengths(first: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Length of each run, from the index of its first entry and the number of all entries."""
    lengths = np.empty(len(first), np.int64)
    np.subtract(first[1:], first[:-1], out=lengths[:-1])
    lengths[-1:] = total - first[-1:]
    return lengths


def backward_sums(
    x: NDArray[np.float64], offsets: NDArray[np.int64], factor: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """y_t = x_t + f_t y_{t+1} within each episode and y = x on its last turn, in time linear in N.

    >>> backward_sums(np.array([1.0, 1.0, 4.0, 8.0]), np.array([0, 2, 4]), 0.5)
    array([1.5, 1. , 8. , 8. ])

    Args:
        x: float64 (N,), the episodes one after another.
        offsets: int64 (G+1,). Episode i is ``offsets[i]:offsets[i+1]``.
        factor: f, one number for all turns or float64 (N,).
    """
    out: list[float] = []
    values = x[::-1].tolist()
    factors = np.broadcast_to(factor, x.shape)[::-1].tolist()
    bounds = (len(x) - offsets[::-1]).tolist()
    for begin, end in pairwise(bounds):  # episodes and turns from the last to the first
        if begin == end:
            continue
        total = values[begin]
        out.append(total)
        for value, f in zip(values[begin + 1 : end], factors[begin + 1 : end], strict=True):
            total = value + f * total
            out.append(total)
    return np.array(out[::-1], np.float64)


# ---- branches: a trajectory forked from another stores only its own turns; here its full episode is assembled ----


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
    def number(self) -> NDArray[np.int64]:
        """int64 (M,): the number of each turn in its episode, from 0."""
        return np.arange(len(self.stored)) - self.offsets[self.episode]

    @cached_property
    def following(self) -> NDArray[np.int64]:
        """int64 (M,): how many turns of its episode follow each turn."""
        return self.offsets[1:][self.episode] - 1 - np.arange(len(self.stored))

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
