"""The value of a turn from Monte Carlo continuations: K from the state before the action and K from the one after.

For policies that are not tables (language models, agents with memory) exact values do not exist. A continuation restores
the snapshot, gives the agent the same history, and proceeds with fresh randomness. Recorded turns are replayed with the
rollout's own seed, so that a stochastic environment reaches the same state again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Agent
from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.train.rollout.play import continue_from
from creditflow.train.rollout.replay import replay
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Forks", "fork_values"]


class Forks(NamedTuple):
    """Scores of continuations from one rollout's T turns, K each.

    Attributes:
        before: float64 (T, K), from the state before each turn.
        after: float64 (T, K), from the state after its action; the rollout's own score where the episode is over.
        episodes, turns, tokens: how many were played, and how many tokens a language model read and generated for them.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    episodes: int = 0
    turns: int = 0
    tokens: int = 0

    @property
    def advantage(self) -> NDArray[np.float64]:
        """float64 (T,), Q̂ − V̂."""
        return np.asarray(self.after.mean(axis=1) - self.before.mean(axis=1))

    @property
    def error(self) -> NDArray[np.float64]:
        """float64 (T,), the standard error of ``advantage``, √((s² before + s² after) / K)."""
        squares = self.before.var(axis=1, ddof=1) + self.after.var(axis=1, ddof=1)
        return np.asarray(np.sqrt(squares / self.before.shape[1]))


def fork_values(
    members: Sequence[Recorder],
    agent: Agent,
    trajectory: Trajectory,
    rng: np.random.Generator,
    *,
    turns: Sequence[int] | None = None,
    seed: int | None = None,
    task: Mapping[str, Any] = MappingProxyType({}),
) -> Forks:
    """Continue a recorded rollout from each of its turns.

    Args:
        members: K ≥ 2 environments like that of the rollout, such as the members of a ``GroupEnv``.
        agent: agent whose value is estimated; it gets the rollout's history as ``View.turns``.
        trajectory: recorded trajectory; its actions are replayed from its task and seed.
        rng: generator of the continuations.
        turns: indices of the turns to continue from (default all); other rows are nan.
        seed: seed of the recorded environment; default the trajectory's own, for a member of a ``GroupEnv``
            ``member_seed(trajectory.seed, trajectory.group_id, trajectory.replica)``. Deterministic tasks ignore it.
        task: payload of the group; needed where the environment's task source does not list the task, as a generator.

    Raises:
        DataError: the replay does not pass through the recorded states, or the environment has other limits.
        ConfigError: K < 2.
    """
    continuations = len(members)
    if continuations < 2:
        raise ConfigError(f"forks need at least two continuations, got {short_repr(continuations)}")
    options: dict[str, Any] = {"task": dict(task)} if task else {"task_id": trajectory.task_id}
    env_seed = trajectory.seed if seed is None else seed
    try:
        snapshots = replay(
            members[0].base, trajectory.turns, task_id=trajectory.task_id, task=task,
            seed=env_seed, stop_reason=trajectory.stop_reason,
        )  # fmt: skip
    except DataError as error:
        raise DataError(f"trajectory {trajectory.trajectory_id!r}: {error}") from error
    chosen = set(range(len(trajectory.turns)) if turns is None else turns)
    scores = np.full((len(snapshots), continuations), np.nan)
    last = len(trajectory.turns)
    played = []
    for index, snapshot in enumerate(snapshots):
        if index == last:
            scores[index] = trajectory.score
        elif index in chosen or index - 1 in chosen:
            history = trajectory.turns[:index]
            episodes = continue_from(members, agent, snapshot, history, rng, options=options, seed=env_seed)
            scores[index] = [episode.info["score"] for episode in episodes]
            played += [(episode.recorder.num_turns, episode.used_tokens) for episode in episodes]
    before, after = scores[:-1].copy(), scores[1:].copy()
    skipped = [t for t in range(last) if t not in chosen]
    before[skipped], after[skipped] = np.nan, np.nan
    return Forks(before, after, len(played), sum(turns for turns, _ in played), sum(tokens for _, tokens in played))
