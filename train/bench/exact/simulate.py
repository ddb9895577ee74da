"""Groups of rollouts sampled directly from the transition tables, for many policies at once.

A learning curve needs ten thousand groups, which would take hours to sample through an environment. The groups made here
have the same content as those of ``GroupEnv``, stored as arrays; ``trajectories`` materialises it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.wrappers.records.group import EpisodeIndex, Group, GroupArrays, StateIndex
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, TRUNCATED, StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["ArrayGroup", "Paths", "group_of", "sample_paths"]

STOPS: dict[int, StopReason] = {GOAL: "success", FAILED: "failed", TRUNCATED: "env_limit"}


class ArrayGroup(Group):
    """A group stored as arrays; its trajectories are materialised on demand.

    Args:
        mdp: task whose states the indices refer to.
        number, next_number: int32 (N,), index of the state before and after each turn, one rollout after the other.
        action: int32 (N,), index of each action.
        lengths: int64 (G,), number of turns of each rollout, at least 1.
        name: group id; must be distinct for groups with fresh keys, because the keys contain it.
        fresh: whether every visit of a state has a new key, except that all rollouts begin in the same state.

    Attributes:
        mdp, name, number, next_number, fresh: as given.
        chosen: int32 (N,), index of each action among the task's actions.
        left: int64 (N,), turns left before each turn, this one included.
        annotations: float64 (N,) by name.
    """

    mdp: FiniteMDP
    name: str
    number: NDArray[np.int32]
    next_number: NDArray[np.int32]
    chosen: NDArray[np.int32]
    left: NDArray[np.int64]
    fresh: bool
    annotations: Mapping[str, NDArray[np.float64]]

    def __init__(  # unlike a Group, it is constructed from arrays instead of trajectories
        self,
        mdp: FiniteMDP,
        number: NDArray[np.int32],
        next_number: NDArray[np.int32],
        action: NDArray[np.int32],
        lengths: NDArray[np.int64],
        name: str = "g",
        *,
        fresh: bool = False,
    ) -> None:
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        last = np.zeros(len(number), np.bool_)
        last[offsets[1:] - 1] = True
        final = next_number[last]
        terminal = final >= mdp.size
        terminal_state = np.where(terminal, final - mdp.size, 0)
        success = terminal & (mdp.terminal_success[terminal_state] if len(mdp.terminal_success) else False)
        terminal_score = mdp.terminal_score[terminal_state] if len(mdp.terminal_score) else np.zeros(len(final))
        score = np.where(terminal, terminal_score, mdp.limit_score[np.minimum(final, mdp.size - 1)])
        reward = np.zeros(len(number))
        reward[last] = score
        valid = mdp.valid[number, action]
        same = mdp.key_number
        actions, acted = _first_appearance(mdp.action_number[action])
        keys = {
            "mdp": mdp,
            "name": name,
            "number": number,
            "next_number": next_number,
            "chosen": action,
            "left": mdp.horizon - (np.arange(len(number)) - offsets[owner]),
            "task": {},
            "fresh": fresh,
            "annotations": {},
        }
        for attribute, value in keys.items():
            object.__setattr__(self, attribute, value)
        arrays = GroupArrays(
            states=_fresh(mdp.keys[mdp.start], name, offsets)
            if fresh
            else _numbered(same[number], same[next_number], mdp.keys),
            actions=tuple(mdp.actions[i] for i in actions.tolist()),
            action=acted,
            reward=reward,
            cost=np.ones(len(number)),
            parsed=np.ones(len(number), np.bool_) if mdp.invalid is None else action != mdp.invalid,
            valid=valid,
            effective=valid & (same[number] != same[next_number]),
            trajectory=owner,
            last=last,
            offsets=offsets,
            end=np.where(success, GOAL, np.where(terminal, FAILED, TRUNCATED)).astype(np.int8),
            success=success,
            score=score,
            returns=score,
        )
        self.__dict__["arrays"] = arrays

    def __len__(self) -> int:
        return self.arrays.size

    @property
    def group_id(self) -> str:
        """Id of the group."""
        return self.name

    @property
    def task_id(self) -> str:
        """Name of the task."""
        return self.mdp.name

    @cached_property
    def first_turns(self) -> NDArray[np.int64]:
        """int64 (G,): zeros, as there are no branches."""
        return np.zeros(len(self), np.int64)

    @cached_property
    def episode_index(self) -> EpisodeIndex:
        """The stored turns themselves, as there are no branches."""
        everything = np.arange(len(self.number))
        return EpisodeIndex(self.arrays.offsets, everything, everything)

    @cached_property
    def token_counts(self) -> NDArray[np.int64]:
        """int64 (N,): ones, as table policies generate no tokens."""
        return np.ones(len(self.number), np.int64)

    def annotation(self, name: str) -> NDArray[np.float64]:
        """float64 (N,): the annotation of every turn; nan where it is missing."""
        return self.annotations.get(name, np.full(len(self.number), np.nan))

    def annotated(self, annotations: Mapping[str, NDArray[np.float64]]) -> ArrayGroup:
        """The same group with these annotations added."""
        copied = copy(self)
        for stale in ("trajectories", "turns", "episodes"):
            copied.__dict__.pop(stale, None)
        object.__setattr__(copied, "annotations", {**self.annotations, **annotations})
        return copied

    def states(self, key: Literal["state", "text"] = "state") -> StateIndex:
        """The states by state key, or by text key, as a text-only method sees them."""
        return self.arrays.states if key == "state" else self._texts

    @cached_property
    def _texts(self) -> StateIndex:
        if self.fresh:
            return self.arrays.states
        label = {text: i for i, text in enumerate(dict.fromkeys(self.mdp.text_keys))}
        alias = np.array([label[text] for text in self.mdp.text_keys], np.int32)
        return _numbered(alias[self.number], alias[self.next_number], tuple(label))

    @cached_property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """The rollouts as trajectories."""
        arrays, mdp = self.arrays, self.mdp
        states, texts = self.states("state"), self.states("text")
        annotations = {name: values.tolist() for name, values in self.annotations.items()}
        trajectories = []
        for i, (a, b) in enumerate(zip(arrays.offsets[:-1].tolist(), arrays.offsets[1:].tolist(), strict=True)):
            turns = tuple(
                Turn(
                    states.keys[states.state[t]],
                    arrays.actions[arrays.action[t]],
                    states.keys[states.next_state[t]],
                    reward=float(arrays.reward[t]),
                    parsed=bool(arrays.parsed[t]),
                    admissible=bool(arrays.valid[t]),
                    effective=bool(arrays.effective[t]),
                    text_key=texts.keys[texts.state[t]],
                    values={name: values[t] for name, values in annotations.items()},
                )
                for t in range(a, b)
            )
            trajectories.append(
                Trajectory(
                    trajectory_id=f"{self.name}/{i}",
                    group_id=self.name,
                    task_id=mdp.name,
                    turns=turns,
                    success=bool(arrays.success[i]),
                    score=float(arrays.score[i]),
                    stop_reason=STOPS[int(arrays.end[i])],
                    final_state_key=states.keys[states.next_state[b - 1]],
                    final_text_key=texts.keys[texts.next_state[b - 1]],
                    replica=i,
                )
            )
        return tuple(trajectories)


def _first_appearance(x: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Distinct indices in order of first appearance, and the position of each entry among them."""
    first = np.full(int(x.max()) + 1, len(x))
    first[x[::-1]] = np.arange(len(x) - 1, -1, -1)  # the last assignment, that of the first entry, remains
    values = np.flatnonzero(first < len(x))
    values = values[np.argsort(first[values])]
    rank = np.empty(len(first), np.int32)
    rank[values] = np.arange(len(values), dtype=np.int32)
    return values, rank[x]


def _numbered(before: NDArray[np.int32], after: NDArray[np.int32], keys: tuple[str, ...]) -> StateIndex:
    values, labels = _first_appearance(np.stack([before, after], axis=1).ravel())
    return StateIndex(tuple(keys[i] for i in values.tolist()), labels[0::2], labels[1::2])


def _fresh(start: str, name: str, offsets: NDArray[np.int64]) -> StateIndex:
    """A new key after every turn."""
    count = int(offsets[-1])
    after = np.arange(1, count + 1, dtype=np.int32)
    before = after - 1
    before[offsets[:-1]] = 0
    return StateIndex((start, *(f"{name}:{i}" for i in range(count))), before, after)


def group_of(
    paths: Paths,
    lanes: slice,
    mdp: FiniteMDP,
    *,
    name: str,
    fresh: bool,
    numbers: Callable[[NDArray[np.int32]], NDArray[np.int32]],
) -> ArrayGroup:
    """Make a group of some lanes of sampled rollouts.

    Args:
        paths: sampled rollouts.
        lanes: the lanes of the group.
        mdp: their task.
        name, fresh: as in ``ArrayGroup``.
        numbers: maps the states of ``paths`` to those of the task.
    """
    length = paths.lengths[lanes]
    longest = int(length.max())
    acting = np.arange(longest) < length[:, None]
    before = numbers(paths.states[:longest, lanes].T[acting])
    after = numbers(paths.states[1 : longest + 1, lanes].T[acting])
    return ArrayGroup(mdp, before, after, paths.actions[:longest, lanes].T[acting], length, name, fresh=fresh)


class Paths(NamedTuple):
    """Sampled rollouts, one per column ("lane"): lane p · W + w is policy p with the w-th random numbers.

    Attributes:
        states: int32 (H+1, P · W), the state before each turn and after the last one; later entries are unspecified.
        actions: int32 (H, P · W), likewise.
        lengths: int64 (P · W,), number of turns.
    """

    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    lengths: NDArray[np.int64]


def sample_paths(
    next_states: NDArray[np.int32],
    transition_probs: NDArray[np.float64],
    policies: NDArray[np.float64],
    start: NDArray[np.integer[Any]],
    horizon: int,
    rng: np.random.Generator,
) -> Paths:
    """Sample rollouts of every policy with common random numbers.

    Common random numbers reduce the variance of differences between policies, and between the schemes that produced them.

    Args:
        next_states, transition_probs: (S, A, K), as in ``FiniteMDP``; states from S on are terminal.
        policies: float64 (P, S, A).
        start: int (W,), initial states.
        horizon: H.
        rng: source of randomness; how much is drawn from it does not depend on the policies.
    """
    count, size, width = len(policies), len(next_states), len(start)
    cumulative = np.cumsum(policies, axis=2)[:, :, :-1].reshape(count * size, -1)
    branches = None if next_states.shape[2] == 1 else np.cumsum(transition_probs, axis=2)[:, :, :-1]
    draws = rng.random((horizon, 1 if branches is None else 2, width))
    state = np.tile(start, count).astype(np.int32)
    lanes = len(state)
    states, actions = np.empty((horizon + 1, lanes), np.int32), np.empty((horizon, lanes), np.int32)
    lengths = np.full(lanes, horizon, np.int64)
    running = np.arange(lanes)
    states[0] = state
    for t in range(horizon):
        now = state[running]
        draw = draws[t][:, running % width]
        action = (cumulative[running // width * size + now] <= draw[0][:, None]).sum(axis=1)
        branch = 0 if branches is None else (branches[now, action] <= draw[1][:, None]).sum(axis=1)
        after = next_states[now, action, branch]
        state[running] = after
        actions[t, running] = action
        states[t + 1] = state
        terminated = after >= size
        if terminated.any():
            lengths[running[terminated]] = t + 1
            running = running[~terminated]
            if not len(running):
                break
    return Paths(states, actions, lengths)
