"""Turns, trajectories and groups: the one record that schemes, trainers, adapters and viewers share.

Everything is a frozen dataclass of plain values. A ``Group`` holds the rollouts of one task and computes its NumPy
arrays once, for all schemes. Files are read and written by ``jsonl.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError, unknown_name

__all__ = [
    "FAILED",
    "GOAL",
    "OPEN",
    "STOP_REASONS",
    "TRUNCATED",
    "Group",
    "GroupArrays",
    "StateIndex",
    "StopReason",
    "Tokens",
    "Trajectory",
    "Turn",
    "bucket_trajectories",
    "group_trajectories",
]

StopReason = Literal["success", "failed", "env_limit", "token_limit", "tool_limit", "format", "env_error"]
OPEN, GOAL, FAILED, TRUNCATED = 0, 1, 2, 3
# what kind of end each stop reason is: a limit says nothing about the state it fell on, a failure does
STOP_REASONS: Mapping[str, int] = MappingProxyType(
    {
        "success": GOAL,
        "failed": FAILED,
        "format": FAILED,
        "env_limit": TRUNCATED,
        "token_limit": TRUNCATED,
        "tool_limit": TRUNCATED,
        "env_error": TRUNCATED,
    }
)
NO_VALUES: Mapping[str, float] = MappingProxyType({})
NO_PROVENANCE: Mapping[str, str] = MappingProxyType({})


def _no_values() -> Mapping[str, float]:
    """One shared empty mapping: a million turns need no million dicts."""
    return NO_VALUES


def _no_provenance() -> Mapping[str, str]:
    return NO_PROVENANCE


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: thought + action + observation.

    Attributes:
        state_key, next_state_key: keys of the state before and after the action.
        action: the action as sent to the environment.
        reward: as the environment paid it; penalties are applied by the scheme.
        parsed, admissible, effective: could be understood; allowed by the rules; changed the state.
        cost: cost of the transition in the state graph, > 0.
        observation: what the agent saw before acting.
        thought, response: the model's reasoning and its full text.
        text_key: the state as a text-only method sees it.
        action_key: names equal actions when their texts differ ("" = the text).
        invalid_reason: why the action was refused.
        entities, queries, doc_ids, images: what a search turn touched; images as names, never pixels.
        values: numbers written by annotators ("value.pica", "distance.oracle", …); a value after the action has
            ".next" at the end of its name.
    """

    state_key: str
    action: str
    next_state_key: str
    reward: float = 0.0
    parsed: bool = True
    admissible: bool = True
    effective: bool = True
    cost: float = 1.0
    observation: str = ""
    thought: str = ""
    response: str = ""
    text_key: str = ""
    action_key: str = ""
    invalid_reason: str = ""
    entities: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=_no_values)

    @property
    def valid(self) -> bool:
        """Parsed and admissible."""
        return self.parsed and self.admissible


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The sampled tokens of a trajectory, as sampled, never re-encoded.

    Attributes:
        ids: int32 (L,), every token of the append-only history; with a windowed history, the model's tokens only.
        mask: bool (L,), True where the model sampled the token.
        logprobs: float32 (L,), the sampler's log-probability, 0 where ``mask`` is False.
        turn_offsets: int32 (T+1,); turn t owns positions ``turn_offsets[t]:turn_offsets[t+1]``.
        prompts: per turn the int32 prompt ids, when history is windowed; else ().
        policy_version: of the sampler.
        values: per name float32 (L+1,), a number for the history before each token and after the last, written by
            annotators; meaningful where ``mask`` is True, and at the end.

    A branch's ids begin with its parent's tokens up to the fork, masked out: ``turn_offsets[0]`` is their number.
    """

    ids: NDArray[np.int32]
    mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn_offsets: NDArray[np.int32]
    prompts: tuple[NDArray[np.int32], ...] = ()
    policy_version: str = ""
    values: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.ids)
        if len(self.mask) != n or len(self.logprobs) != n:
            raise TrajectoryError(
                f"tokens: ids, mask and logprobs must have one length, got {n}, {len(self.mask)}, {len(self.logprobs)}"
            )
        steps = np.diff(self.turn_offsets)
        if not len(self.turn_offsets) or self.turn_offsets[0] < 0 or self.turn_offsets[-1] > n or (steps < 0).any():
            raise TrajectoryError(f"tokens: turn_offsets must rise within 0..{n}, got {list(self.turn_offsets)[:8]}…")
        for name, values in self.values.items():
            if values.shape != (n + 1,):
                raise TrajectoryError(
                    f"tokens: values {name!r} of {n} tokens must be {n + 1} numbers, got {len(values)}"
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokens):
            return NotImplemented
        return (
            self.policy_version == other.policy_version
            and len(self.prompts) == len(other.prompts)
            and all(np.array_equal(a, b) for a, b in zip(self.prompts, other.prompts, strict=True))
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("ids", "mask", "logprobs", "turn_offsets")
            )
            and self.values.keys() == other.values.keys()
            and all(np.array_equal(self.values[name], other.values[name]) for name in self.values)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays are not hashable


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode.

    Attributes:
        trajectory_id: unique within a group.
        group_id: names the group; the same task recurs over iterations under other group ids.
        task_id: the problem instance.
        turns: in order; each turn's ``next_state_key`` is the next turn's ``state_key``.
        success: as the environment says, never derived from rewards.
        score: graded outcome in [0, 1].
        stop_reason: why the episode ended; "success" if and only if ``success``.
        final_state_key: the state after the last turn.
        final_text_key: the same as a text-only method sees it.
        tokens: the sampled tokens, if a language model acted.
        policy, seed, replica: who acted, and with which randomness.
        parent, fork_turn: a branch names the trajectory it was forked from and the turn it forked before; it stores
            only its own turns, so that the shared prefix counts once.
        trial: number of the attempt when attempts learn from earlier ones (reflection); attempts are not i.i.d.
        values: numbers about the whole trajectory, written by annotators.
        provenance: who wrote each name among the values of turns, tokens and trajectory (see ``train/annotate``).
    """

    trajectory_id: str
    group_id: str
    task_id: str
    turns: tuple[Turn, ...]
    success: bool
    score: float
    stop_reason: StopReason
    final_state_key: str
    final_text_key: str = ""
    tokens: Tokens | None = None
    policy: str = ""
    seed: int = 0
    replica: int = 0
    parent: str = ""
    fork_turn: int = -1
    trial: int = 0
    values: Mapping[str, float] = field(default_factory=_no_values)
    provenance: Mapping[str, str] = field(default_factory=_no_provenance)

    def __post_init__(self) -> None:
        name = f"trajectory {self.trajectory_id!r}"
        object.__setattr__(self, "turns", tuple(self.turns))
        if self.stop_reason not in STOP_REASONS:
            raise TrajectoryError(f"{name}: stop_reason must be one of {', '.join(STOP_REASONS)}: {self.stop_reason!r}")
        if self.success != (self.stop_reason == "success"):
            raise TrajectoryError(
                f"{name}: success is {self.success} but stop_reason is {self.stop_reason!r}; one implies the other"
            )
        if not 0.0 <= self.score <= 1.0:
            raise TrajectoryError(f"{name}: score must lie in [0, 1], got {self.score!r}")
        expected = self.turns[0].state_key if self.turns else self.final_state_key
        for t, turn in enumerate(self.turns):
            if turn.state_key != expected:
                raise TrajectoryError(
                    f"{name}: turn {t} begins in state {turn.state_key!r} but the turn before ended in {expected!r}"
                )
            if not _finite(turn.cost) or turn.cost <= 0.0:
                raise TrajectoryError(f"{name}: turn {t}: cost must be positive and finite, got {turn.cost!r}")
            if not _finite(turn.reward):
                raise TrajectoryError(f"{name}: turn {t}: reward must be finite, got {turn.reward!r}")
            expected = turn.next_state_key
        if self.final_state_key != expected:
            raise TrajectoryError(
                f"{name}: final_state_key is {self.final_state_key!r} but the last turn ended in {expected!r}"
            )
        if self.tokens is not None:
            if len(self.tokens.turn_offsets) != len(self.turns) + 1:
                raise TrajectoryError(
                    f"{name}: {len(self.turns)} turns need {len(self.turns) + 1} token offsets, "
                    f"got {len(self.tokens.turn_offsets)}"
                )
            if len(self.tokens.prompts) not in (0, len(self.turns)):
                raise TrajectoryError(
                    f"{name}: prompts are one a turn or none, got {len(self.tokens.prompts)} for {len(self.turns)} turns"
                )
        if self.parent and self.fork_turn < 0:
            raise TrajectoryError(f"{name}: a branch needs fork_turn ≥ 0, the turn of {self.parent!r} it replaces")

    @property
    def episode_return(self) -> float:
        """Sum of this trajectory's own rewards, exactly rounded."""
        return _sum([turn.reward for turn in self.turns], self.trajectory_id)

    @property
    def end(self) -> int:
        """The kind of its end: GOAL, FAILED or TRUNCATED."""
        return STOP_REASONS[self.stop_reason]


@dataclass(frozen=True, slots=True, eq=False)
class StateIndex:
    """The states of a group, numbered in order of first appearance.

    Attributes:
        keys: V distinct keys.
        state, next_state: int32 (N,), the state before and after each turn.
    """

    keys: tuple[str, ...]
    state: NDArray[np.int32]
    next_state: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class GroupArrays:
    """A group as arrays. N turns of G trajectories, in order; trajectory i owns ``offsets[i]:offsets[i+1]``.

    Attributes:
        states: keys and their numbers (N,).
        actions: A distinct action keys.
        action: int32 (N,).
        reward, cost: float64 (N,).
        parsed, valid, effective: bool (N,).
        trajectory: int32 (N,), the owner of each turn.
        last: bool (N,), the last turn of its trajectory.
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
        """int32 (N,), state before each turn."""
        return self.states.state

    @property
    def next_state(self) -> NDArray[np.int32]:
        """int32 (N,), state after each turn."""
        return self.states.next_state

    @property
    def size(self) -> int:
        """G, the number of trajectories."""
        return len(self.offsets) - 1

    def split(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        """A flat (N, …) array as G arrays (T_i, …), views."""
        return [flat[a:b] for a, b in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)]


@dataclass(frozen=True)
class Group:
    """Trajectories of one task: the unit that schemes see.

    Attributes:
        trajectories: at least one, all of one group, task and trial.
        task: the task's payload (question, answers, evidence graph, …), if a scheme needs it.

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
        for other in self.trajectories:
            if (other.group_id, other.task_id) != (first.group_id, first.task_id):
                raise TrajectoryError(
                    f"a group holds rollouts of one task: {first.trajectory_id!r} has group {first.group_id!r}, task "
                    f"{first.task_id!r}; {other.trajectory_id!r} has {other.group_id!r}, {other.task_id!r}"
                )
            if other.trial != first.trial:
                raise TrajectoryError(
                    f"group {first.group_id!r} mixes trial {first.trial} and trial {other.trial}: attempts that learn "
                    "from earlier ones are not independent samples; make one group per trial"
                )
        ids = {trajectory.trajectory_id for trajectory in self.trajectories}
        if len(ids) != len(self.trajectories):
            raise TrajectoryError(f"group {first.group_id!r}: a trajectory_id occurs twice")
        if any(trajectory.parent for trajectory in self.trajectories):
            by_id = {trajectory.trajectory_id: trajectory for trajectory in self.trajectories}
            for other in self.trajectories:
                _prefix(other, by_id)

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
        return tuple(turn for trajectory in self.trajectories for turn in trajectory.turns)

    @cached_property
    def arrays(self) -> GroupArrays:
        """The group as arrays, computed once."""
        turns = self.turns
        lengths = [len(trajectory.turns) for trajectory in self.trajectories]
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        n = len(turns)
        states = _index([t.state_key for t in turns], [t.next_state_key for t in turns])
        actions = _index([t.action_key or t.action for t in turns], [])
        parsed = np.fromiter((t.parsed for t in turns), np.bool_, n)
        admissible = np.fromiter((t.admissible for t in turns), np.bool_, n)
        last = np.zeros(n, np.bool_)
        last[offsets[1:][np.asarray(lengths) > 0] - 1] = True
        members = self.trajectories
        return GroupArrays(
            states=states,
            actions=actions.keys,
            action=actions.state,
            reward=_frozen(np.fromiter((t.reward for t in turns), np.float64, n)),
            cost=_frozen(np.fromiter((t.cost for t in turns), np.float64, n)),
            parsed=_frozen(parsed),
            valid=_frozen(parsed & admissible),
            effective=_frozen(np.fromiter((t.effective for t in turns), np.bool_, n)),
            trajectory=_frozen(np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)),
            last=_frozen(last),
            offsets=_frozen(offsets),
            end=_frozen(np.fromiter((m.end for m in members), np.int8, len(members))),
            success=_frozen(np.fromiter((m.success for m in members), np.bool_, len(members))),
            score=_frozen(np.fromiter((m.score for m in members), np.float64, len(members))),
            returns=_frozen(self._returns()),
        )

    @cached_property
    def first_turns(self) -> NDArray[np.int64]:
        """int64 (G,): turns taken before each trajectory's own first one (a branch begins at its ``fork_turn``)."""
        return np.array([m.fork_turn if m.parent else 0 for m in self.trajectories], np.int64)

    def prefix(self, index: int) -> tuple[Turn, ...]:
        """The turns before a branch's own first one, which its ancestors store; () for a trajectory that is no branch."""
        member = self.trajectories[index]
        return tuple(_prefix(member, {other.trajectory_id: other for other in self.trajectories}))

    def states(self, key: Literal["state", "text"] = "state") -> StateIndex:
        """The states by their true key, or by what a text-only method would have seen.

        Raises:
            TrajectoryError: ``key="text"`` but the log has no text keys.
            ConfigError: ``key`` is something else.
        """
        if key not in ("state", "text"):
            raise unknown_name("value of key", str(key), ["state", "text"])
        return self.arrays.states if key == "state" else self._text_states

    @cached_property
    def _text_states(self) -> StateIndex:
        before, after = [], []
        for trajectory in self.trajectories:
            keys = [turn.text_key for turn in trajectory.turns]
            if not all(keys) or (keys and not trajectory.final_text_key):
                raise TrajectoryError(
                    f"trajectory {trajectory.trajectory_id!r} has turns without text_key: key='text' needs the text "
                    "keys, record them with Recorder or use key='state'"
                )
            before += keys
            after += [*keys[1:], trajectory.final_text_key][: len(keys)]
        return _index(before, after)

    def _returns(self) -> NDArray[np.float64]:
        by_id = {trajectory.trajectory_id: trajectory for trajectory in self.trajectories}
        totals = np.empty(len(self.trajectories))
        for i, trajectory in enumerate(self.trajectories):
            whole = [*_prefix(trajectory, by_id), *trajectory.turns] if trajectory.parent else trajectory.turns
            totals[i] = _sum([turn.reward for turn in whole], trajectory.trajectory_id)
        return totals


def _finite(value: float) -> bool:
    """Whether a value is a number that float64 holds; Python's integers have no limit."""
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError):
        return False


def _sum(rewards: Sequence[float], trajectory_id: str) -> float:
    try:
        return math.fsum(rewards)
    except OverflowError:
        raise TrajectoryError(
            f"trajectory {trajectory_id!r}: the sum of its rewards is beyond floating point"
        ) from None


def _prefix(branch: Trajectory, by_id: Mapping[str, Trajectory]) -> list[Turn]:
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


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Read-only: all schemes share one copy, none may change it for the others."""
    array.flags.writeable = False
    return array


def _index(before: Sequence[str], after: Sequence[str]) -> StateIndex:
    """Number keys in order of first appearance, turn by turn."""
    numbers: dict[str, int] = {}
    for i, key in enumerate(before):
        if key not in numbers:
            numbers[key] = len(numbers)
        if after and after[i] not in numbers:
            numbers[after[i]] = len(numbers)
    return StateIndex(
        tuple(numbers),
        _frozen(np.array([numbers[key] for key in before], np.int32)),
        _frozen(np.array([numbers[key] for key in after], np.int32)),
    )


def group_trajectories(
    trajectories: Iterable[Trajectory],
    by: Literal["group", "task"] = "group",
    tasks: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Group]:
    """Collect trajectories into groups, in order of first appearance.

    Args:
        trajectories: in any order.
        by: "group" (their ``group_id``) or "task": all rollouts of a task form one group, whatever their group ids.
        tasks: payloads by task id.
    """
    groups = []
    for members in bucket_trajectories(trajectories, by):
        unified = members if by == "group" else _regroup(members)
        groups.append(Group(tuple(unified), (tasks or {}).get(members[0].task_id, {})))
    return groups


def bucket_trajectories(
    trajectories: Iterable[Trajectory], by: Literal["group", "task"] = "group"
) -> list[list[Trajectory]]:
    """Trajectories that belong together, in order of first appearance; trials stay apart.

    Raises:
        ConfigError: ``by`` is something else.
    """
    if by not in ("group", "task"):
        raise unknown_name("value of by", str(by), ["group", "task"])
    buckets: dict[tuple[str, int], list[Trajectory]] = {}
    for trajectory in trajectories:
        name = trajectory.task_id if by == "task" else trajectory.group_id
        buckets.setdefault((name, trajectory.trial), []).append(trajectory)
    return list(buckets.values())


def _regroup(members: list[Trajectory]) -> list[Trajectory]:
    """Members of several groups of one task, under the task's id; ids stay unique."""
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
