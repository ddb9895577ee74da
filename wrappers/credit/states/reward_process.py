"""A group as an empirical Markov reward process, whose values GroupTD computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.graphs.distances import hop_distances
from creditflow.wrappers.records.group import Group, StateIndex, distinct, number_codes
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, OPEN, TRUNCATED

__all__ = ["RewardProcess", "mean_by_state", "together"]

Floats = NDArray[np.float64]
_MAX_TURNS: Final = 8192  # of groups that are joined


class RewardProcess(NamedTuple):
    """The turns of B groups as transitions of a Markov reward process: K states, N turns, G trajectories in all.

    Attributes:
        size: K.
        state, following: int (N,), states before and after each turn.
        trajectory: int (N,), the trajectory of each turn.
        turns_left: int (N,), number of turns left before each turn, including it: H for the first.
        outcome: float64 (G,), R_i.
        goal: bool (N,), turns that ended in success.
        terminal: bool (N,), turns after which nothing follows: their value is their trajectory's outcome at every
            horizon.
        truncated: bool (N,), last turns of truncated trajectories.
        length: int (G,), turns of each trajectory, including the prefix of a branch.
        horizons: int (B,), H of each group.
        success_rate: float64 (B,), ρ = (Σ_i R_i + 1) / (G + 2) of each group, the posterior mean under a uniform prior.
        states, turns, members: int (B+1,), the states, turns and trajectories of group b begin at index b.
    """

    size: int
    state: NDArray[np.int32]
    following: NDArray[np.int32]
    trajectory: NDArray[np.int32]
    turns_left: NDArray[np.int64]
    outcome: Floats
    goal: NDArray[np.bool_]
    terminal: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    length: NDArray[np.int64]
    horizons: NDArray[np.int64]
    success_rate: Floats
    states: NDArray[np.int64]
    turns: NDArray[np.int64]
    members: NDArray[np.int64]

    @classmethod
    def of(cls, group: Group, states: StateIndex, outcome: Floats, horizon: int, *, stationary: bool) -> RewardProcess:
        """Make the process of a group.

        Args:
            group: the group.
            states: its states, after merging.
            outcome: float64 (G,), R_i.
            horizon: H, at least the longest trajectory.
            stationary: truncated trajectories end with their outcome too.
        """
        arrays, before = group.arrays, group.first_turns
        position = group.episode_index.number[group.episode_index.own]
        end = arrays.end[arrays.trajectory]
        truncated = arrays.last & (end == TRUNCATED)
        return cls(
            size=len(states.keys),
            state=states.state,
            following=states.next_state,
            trajectory=arrays.trajectory,
            turns_left=horizon - position,
            outcome=outcome,
            goal=arrays.last & (end == GOAL),
            terminal=arrays.last if stationary else arrays.last & ~truncated,
            truncated=truncated,
            length=before + np.diff(arrays.offsets),
            horizons=np.array([horizon]),
            success_rate=_success_rate(outcome),
            states=np.array([0, len(states.keys)]),
            turns=np.array([0, len(states.state)]),
            members=np.array([0, len(outcome)]),
        )

    @classmethod
    def joined(cls, processes: Sequence[RewardProcess]) -> RewardProcess:
        """One process of the groups of several."""
        if len(processes) == 1:
            return processes[0]
        columns: dict[str, list[Any]] = {name: list(map(attrgetter(name), processes)) for name in cls._fields}
        del columns["size"]
        states, turns, members = (_starts(columns[name]) for name in ("states", "turns", "members"))
        for name, first in (("state", states), ("following", states), ("trajectory", members)):
            columns[name] = [x + shift for x, shift in zip(columns[name], first.astype(np.int32), strict=False)]
        for name, first in (("states", states), ("turns", turns), ("members", members)):
            inner = [x[:-1] + shift for x, shift in zip(columns[name], first.tolist(), strict=False)]
            columns[name] = [*inner, first[-1:]]
        return cls(int(states[-1]), **{name: np.concatenate(values) for name, values in columns.items()})

    @property
    def horizon(self) -> int:
        """The largest H."""
        return int(self.horizons.max())

    def by_state(self, of_group: NDArray[Any]) -> NDArray[Any]:
        """(K,): for each state the number of its group, from (B,)."""
        return np.repeat(of_group, np.diff(self.states))

    def by_turn(self, of_group: NDArray[Any]) -> NDArray[Any]:
        """(N,): for each turn the number of its group, from (B,)."""
        return np.repeat(of_group, np.diff(self.turns))

    @property
    def offsets(self) -> NDArray[np.int64]:
        """int64 (G+1,): the turns of trajectory i are ``offsets[i]:offsets[i+1]``."""
        return np.searchsorted(self.trajectory, np.arange(len(self.outcome) + 1))

    @property
    def unit(self) -> Floats:
        """float64 (K,): for each state the largest outcome of its group in absolute value, at least 1."""
        return self.by_state(np.maximum(np.maximum.reduceat(np.abs(self.outcome), self.members[:-1]), 1.0))

    def hops(self, kept: NDArray[np.bool_] | slice = slice(None)) -> Floats:
        """float64 (K,): number of observed transitions to the nearest success, or inf if none is reachable.

        Args:
            kept: bool (N,), turns whose transitions count, by default all.
        """
        n = self.size + 1
        target = np.where(self.goal, self.size, self.following)
        edge, _ = distinct((target.astype(np.int64) * n + self.state)[kept])
        return hop_distances(n, edge % n, np.searchsorted(edge, np.arange(n + 1) * n), [self.size])[:-1]

    def pairs(self, action: NDArray[np.int32]) -> NDArray[np.int64]:
        """int64 (N,): number of each turn's (state, action) pair.

        Args:
            action: int32 (N,), the action of each turn.
        """
        code = self.state.astype(np.int64) * (int(action.max(initial=0)) + 1) + action
        return number_codes(code)[1]

    def transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Source and target of the distinct transitions between states, by source, and how often each was observed, (E,) each."""
        open_turns = ~self.terminal
        edge, count = distinct(self.state[open_turns].astype(np.int64) * self.size + self.following[open_turns])
        source, target = np.divmod(edge, max(self.size, 1))
        return source, target, count

    def increase(self, potential: Floats) -> Floats:
        """float64 (N,): increase by each turn of a potential (K,), which is 1 after a success and 0 after a failure."""
        failed = self.terminal & ~self.goal & ~self.truncated
        after = np.where(self.goal, 1.0, np.where(failed, 0.0, potential[self.following]))
        increase: Floats = after - potential[self.state]
        return increase

    def conflicted(self, pair: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool (K,): states in which one action had two different results.

        Args:
            pair: int64 (N,), number of each turn's (state, action) pair.
        """
        end = np.where(self.goal, GOAL, np.where(self.terminal & ~self.truncated, FAILED, OPEN))
        result = self.following.astype(np.int64) * 4 + end
        some = np.zeros(int(pair.max(initial=-1)) + 1, np.int64)
        some[pair] = result
        differs = result != some[pair]
        conflicted = np.zeros(self.size, np.bool_)
        conflicted[self.state[differs]] = True
        return conflicted


def together(processes: Sequence[RewardProcess], *, alone: bool = False) -> Iterator[tuple[slice, RewardProcess]]:
    """Yield consecutive groups, of no more turns than stay in a core's cache, as one process, or each group by itself."""
    begin = turns = 0
    for end, process in enumerate(processes, 1):
        turns += len(process.state)
        if alone or turns >= _MAX_TURNS or end == len(processes):
            yield slice(begin, end), RewardProcess.joined(processes[begin:end])
            begin, turns = end, 0


def _starts(bounds: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Where each process begins in the joined one, and where the last ends: the sums of the last bounds."""
    return np.cumsum([0, *(int(bound[-1]) for bound in bounds)])


def _success_rate(outcome: Floats) -> Floats:
    """float64 (1,): ρ of one group."""
    return np.array([(outcome.sum() + 1.0) / (len(outcome) + 2.0)])


def mean_by_state(state: NDArray[np.int32], x: Floats, size: int) -> Floats:
    """float64 (size,): mean of x by state, 0 for states without a value."""
    mean: Floats = np.bincount(state, x, minlength=size) / np.maximum(np.bincount(state, minlength=size), 1)
    return mean
