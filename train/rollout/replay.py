"""Replay a recorded episode and collect the environment's snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import gymnasium as gym

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import DataError
from creditflow.wrappers.group_env import member_seed
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["ReplayedState", "env_seed", "full_episode", "replay"]


class ReplayedState(NamedTuple):
    """A state of a replayed episode: its snapshot, and what the environment shows in it."""

    snapshot: str
    observation: Any
    info: dict[str, Any]


def replay(
    env: gym.Env[Any, Any],
    turns: Sequence[Turn],
    *,
    task_id: str,
    task: Mapping[str, Any],
    seed: int,
    stop_reason: StopReason,
) -> list[ReplayedState]:
    """Replay an episode; returns the states before every turn and after the last, T + 1 of them.

    Args:
        env: an environment like the recorded one; it is reset.
        turns: the full episode, from its first turn.
        task_id, task: the task's id and payload; the payload is enough where the environment's source lacks the id.
        seed: the environment's own seed.
        stop_reason: why the recorded episode ended.

    Raises:
        DataError: the replay does not reproduce the recorded states, or the environment has other limits.
    """
    base = cast("AgentEnv[Any, Any, Any]", env.unwrapped)
    options: dict[str, Any] = {"task": dict(task)} if task else {"task_id": task_id}
    observation, info = env.reset(seed=seed, options=options)
    states = [ReplayedState(base.get_state(), observation, info)]
    for t, turn in enumerate(turns):
        if info["state_key"] != turn.state_key:
            raise DataError(
                f"turn {t} was recorded in state {turn.state_key!r}, its replay is in {info['state_key']!r}; is it "
                "the same environment, task and seed?"
            )
        action = base.action_from_text(turn.action) if turn.valid else turn.action
        observation, _, terminated, truncated, info = base.step(action)
        states.append(ReplayedState(base.get_state(), observation, info))
        if (terminated or truncated) and t + 1 < len(turns):
            raise _ended_early(base, t + 1, len(turns), truncated)
    if turns and info["state_key"] != turns[-1].next_state_key:
        raise DataError(f"the replay ends in state {info['state_key']!r}, the record in {turns[-1].next_state_key!r}")
    if turns and stop_reason == "env_limit" and base.elapsed_steps < base.max_steps and not truncated:
        raise DataError(
            f"the recorded episode was truncated after {len(turns)} turns, but here max_steps={base.max_steps}: it was "
            f"recorded under a shorter limit, and values under another one would not be comparable; add "
            f"--env-set max_steps={len(turns)}"
        )
    return states


def _ended_early(base: AgentEnv[Any, Any, Any], turns: int, recorded: int, truncated: bool) -> DataError:
    """The error for a replay that ends before the recorded episode did."""
    difference = f"the recorded episode has {recorded} turns, but this environment ends it after {turns}"
    if truncated and base.elapsed_steps >= base.max_steps:
        return DataError(
            f"{difference}, its step limit: it was recorded under a longer one; use at least the recorded one: "
            f"--env-set max_steps={recorded}"
        )
    how = "at another of its limits" if truncated else "as a success or failure"
    return DataError(
        f"{difference}, {how}: it was recorded with other options; use those of the recording (--env-set KEY=VALUE)"
    )


def env_seed(trajectory: Trajectory) -> int:
    """The seed of the recorded environment, as derived by ``GroupEnv``."""
    return member_seed(trajectory.seed, trajectory.group_id, trajectory.replica)


def full_episode(group: Group, index: int) -> tuple[Turn, ...]:
    """All turns of an episode, from its first: of a branch the shared prefix, then its own."""
    return group.episodes[index]
