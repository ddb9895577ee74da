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

from creditflow.envs.errors import TrajectoryError

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


def _no_values() -> Mapping[str, float]:
    """One shared empty mapping: a million turns need no million dicts."""
    return NO_VALUES


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
    """

    ids: NDArray[np.int32]
    mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn_offsets: NDArray[np.int32]
    prompts: tuple[NDArray[np.int32], ...] = ()
    policy_version: str = ""

    def __post_init__(self) -> None:
        n = len(self.ids)
        if len(self.mask) != n or len(self.logprobs) != n:
            raise TrajectoryError(
                f"tokens: ids, mask and logprobs must have one length, got {n}, {len(self.mask)}, {len(self.logprobs)}"
            )
        steps = np.diff(self.turn_offsets)
        if not len(self.turn_offsets) or self.turn_offsets[0] < 0 or self.turn_offsets[-1] > n or (steps < 0).any():
            raise TrajectoryError(f"tokens: turn_offsets must rise within 0..{n}, got {list(self.turn_offsets)[:8]}…")

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

    def __post_init__(self) -> None:
        name = f"trajectory {self.trajectory_id!r}"
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
            if not (turn.cost > 0.0 and turn.cost < math.inf):
                raise TrajectoryError(f"{name}: turn {t}: cost must be positive and finite, got {turn.cost!r}")
            if not math.isfinite(turn.reward):
                raise TrajectoryError(f"{name}: turn {t}: reward must be finite, got {turn.reward!r}")
            expected = turn.next_state_key
        if self.final_state_key != expected:
            raise TrajectoryError(
                f"{name}: final_state_key is {self.final_state_key!r} but the last turn ended in {expected!r}"
            )
        if self.tokens is not None and len(self.tokens.turn_offsets) != len(self.turns) + 1:
            raise TrajectoryError(
                f"{name}: {len(self.turns)} turns need {len(self.turns) + 1} token offsets, "
                f"got {len(self.tokens.turn_offsets)}"
            )

    @property
    def episode_return(self) -> float:
        """Sum of this trajectory's own rewards, exactly rounded."""
        return math.fsum(turn.reward for turn in self.turns)

    @property
    def end(self) -> int:
        """The kind of its end: GOAL, FAILED or TRUNCATED."""
        return STOP_REASONS[self.stop_reason]


@dataclass(frozen=True, slots=True)
class StateIndex:
    """The states of a group, numbered in order of first appearance.

    Attributes:
        keys: V distinct keys.
        state, next_state: int32 (N,), the state before and after each turn.
    """

    keys: tuple[str, ...]
    state: NDArray[np.int32]
    next_state: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
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
        for other in self.trajectories:
            if other.parent and other.parent not in ids:
                raise TrajectoryError(
                    f"group {first.group_id!r}: {other.trajectory_id!r} branches from {other.parent!r}, not in group"
                )

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
            reward=np.fromiter((t.reward for t in turns), np.float64, n),
            cost=np.fromiter((t.cost for t in turns), np.float64, n),
            parsed=parsed,
            valid=parsed & admissible,
            effective=np.fromiter((t.effective for t in turns), np.bool_, n),
            trajectory=np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
            last=last,
            offsets=offsets,
            end=np.fromiter((m.end for m in members), np.int8, len(members)),
            success=np.fromiter((m.success for m in members), np.bool_, len(members)),
            score=np.fromiter((m.score for m in members), np.float64, len(members)),
            returns=self._returns(),
        )

    @cached_property
    def first_turns(self) -> NDArray[np.int64]:
        """int64 (G,): turns taken before each trajectory's own first one (a branch begins at its ``fork_turn``)."""
        return np.array([m.fork_turn if m.parent else 0 for m in self.trajectories], np.int64)

    def states(self, key: Literal["state", "text"] = "state") -> StateIndex:
        """The states by their true key, or by what a text-only method would have seen.

        Raises:
            TrajectoryError: ``key="text"`` but the log has no text keys.
        """
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
            rewards = [turn.reward for turn in trajectory.turns]
            seen, child = {trajectory.trajectory_id}, trajectory
            while child.parent:
                parent = by_id[child.parent]
                if parent.trajectory_id in seen:
                    raise TrajectoryError(f"group {self.group_id!r}: branches of {child.parent!r} form a cycle")
                start = parent.fork_turn if parent.parent else 0
                rewards += [turn.reward for turn in parent.turns[: child.fork_turn - start]]
                seen.add(parent.trajectory_id)
                child = parent
            totals[i] = math.fsum(rewards)
        return totals


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
        np.array([numbers[key] for key in before], np.int32),
        np.array([numbers[key] for key in after], np.int32),
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
    buckets: dict[tuple[str, int], list[Trajectory]] = {}
    for trajectory in trajectories:
        name = trajectory.task_id if by == "task" else trajectory.group_id
        buckets.setdefault((name, trajectory.trial), []).append(trajectory)
    groups = []
    for members in buckets.values():
        unified = members if by == "group" else _regroup(members)
        groups.append(Group(tuple(unified), (tasks or {}).get(members[0].task_id, {})))
    return groups


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
