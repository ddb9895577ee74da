"""Many tasks stacked into one table, so that the values of many policies on all of them are computed together.

State s of task i is state ``offsets[i] + s`` of the stack; terminal states of all tasks follow all acting states. A
policy is a table (S, A) over the acting states of the stack, and results have one entry per task.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup, group_of, sample_paths

__all__ = ["StackedTasks", "sample_groups", "split_rows"]

Floats = NDArray[np.float64]


def split_rows(table: Floats, lengths: Sequence[int]) -> list[Floats]:
    """Split a table into consecutive parts of these numbers of rows; ``np.split`` takes several times as long."""
    tables, first = list[Floats](), 0
    for length in lengths:
        tables.append(table[first : first + length])
        first += length
    return tables


class StackedTasks:
    """The tables of several tasks with the same actions and the same turn limit.

    Args:
        mdps: the tasks; one may occur several times.

    Attributes:
        mdps: as given.
        offsets: int64 (n+1,); the acting states of task i are ``offsets[i]:offsets[i+1]``.
        horizon: H, the turn limit.
        start: int64 (n,), initial states.
        next_states: int32 (S, A, K), the K possible next states of an action.
        transition_probs: float64 (S, A, K), their probabilities.

    Raises:
        ConfigError: there is no task, or actions or turn limits differ.
    """

    def __init__(self, mdps: Sequence[FiniteMDP]) -> None:
        if len({(len(mdp.actions), mdp.horizon) for mdp in mdps}) != 1:
            raise ConfigError(
                "tasks that share a policy need the same number of actions and the same turn limit, got (actions, limit) "
                f"{sorted({(len(mdp.actions), mdp.horizon) for mdp in mdps}) or 'of no task'}"
            )
        self.mdps = tuple(mdps)
        self.horizon = mdps[0].horizon
        self.offsets = np.cumsum([0, *(mdp.size for mdp in mdps)])
        size, branches = int(self.offsets[-1]), max(mdp.next_states.shape[2] for mdp in mdps)
        self.next_states = np.zeros((size, len(mdps[0].actions), branches), np.int32)
        self.transition_probs = np.zeros(self.next_states.shape)
        self._terminal_offsets = np.cumsum([0, *(len(mdp.terminal_score) for mdp in mdps)])
        for mdp, first, ends in zip(mdps, self.offsets.tolist(), self._terminal_offsets.tolist(), strict=False):
            rows, width = slice(first, first + mdp.size), mdp.next_states.shape[2]
            shift = np.where(mdp.next_states < mdp.size, first, size + ends - mdp.size)
            self.next_states[rows, :, :width] = mdp.next_states + shift
            self.next_states[rows, :, width:] = self.next_states[rows, :, :1]
            self.transition_probs[rows, :, :width] = mdp.transition_probs
        self.start = self.offsets[:-1] + np.array([mdp.start for mdp in mdps])

    @property
    def size(self) -> int:
        """S, the number of acting states of all tasks."""
        return int(self.offsets[-1])

    @property
    def deterministic(self) -> bool:
        """Whether every action has exactly one next state."""
        return bool(self.next_states.shape[2] == 1)

    @cached_property
    def values_at_limit(self) -> Floats:
        """float64 (S+E,): the score of an episode that ends in each state."""
        return np.concatenate([*(mdp.limit_score for mdp in self.mdps), *(mdp.terminal_score for mdp in self.mdps)])

    def own_states(self, task: int, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """Stacked states (N,) of one task, numbered as in that task: acting states first, then terminal ones."""
        shift = self.size + self._terminal_offsets[task] - self.mdps[task].size
        numbers: NDArray[np.int32] = np.where(states < self.size, states - self.offsets[task], states - shift).astype(
            np.int32
        )
        return numbers

    def split(self, table: Floats) -> list[Floats]:
        """Split a table (S, …) into one table per task."""
        return split_rows(table, [mdp.size for mdp in self.mdps])


def sample_groups(
    tasks: StackedTasks,
    policies: NDArray[np.float64],
    size: int,
    rng: np.random.Generator,
    *,
    name: str = "g",
    fresh: bool = False,
) -> list[list[ArrayGroup]]:
    """Sample one group of ``size`` rollouts for each policy and task.

    Rollout i of a task has the same random numbers under every policy.

    Args:
        tasks: the tasks of the batch.
        policies: float64 (M, S, A), over the stacked states.
        size: G.
        rng: source of randomness; how much is drawn from it does not depend on the policies.
        name: prefix of the group ids, distinct for every call of a run.
        fresh: whether every visit of a state has a new key.

    Returns:
        The groups by policy, then by task.
    """
    paths = sample_paths(
        tasks.next_states, tasks.transition_probs, policies, np.repeat(tasks.start, size), tasks.horizon, rng
    )
    count, groups = len(tasks.mdps), list[list[ArrayGroup]]()
    for p in range(len(policies)):
        lanes = [slice((p * count + i) * size, (p * count + i + 1) * size) for i in range(count)]
        groups.append(
            [
                group_of(
                    paths, of_task, tasks.mdps[i], name=f"{name}/{i}", fresh=fresh, numbers=partial(tasks.own_states, i)
                )
                for i, of_task in enumerate(lanes)
            ]
        )
    return groups
