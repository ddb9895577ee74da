"""Play groups of one task each with an agent; every episode is reproducible by itself.

Each episode draws from its own generator, seeded by (seed, iteration, task, replica), so results do not depend on
batch order, on which other tasks are played, or on how many workers there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from creditflow.agents.base import Agent, decisions_for
from creditflow.envs.tasks import Task
from creditflow.train.rollout.running import RunningEpisode, RunningGroup, policy_version
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group

__all__ = ["episode_rng", "play_group", "play_groups"]


def episode_rng(seed: int, iteration: int, task_id: str, replica: int, trial: int = 0) -> np.random.Generator:
    """The random generator of one episode; every further trial has its own."""
    digest = hashlib.blake2b(task_id.encode(), digest_size=8).digest()
    return np.random.default_rng([seed, iteration, int.from_bytes(digest, "big"), replica, *([trial] if trial else [])])


def play_group(
    env: GroupEnv, agent: Agent, task: Task, *, seed: int = 0, iteration: int = 0, group_id: str | None = None
) -> Group:
    """Play one task to the end with all members of ``env``.

    Args:
        env: the group of environments.
        agent: chooses the actions.
        task: the task to play.
        seed, iteration: seed the episodes' generators.
        group_id: name of the group in the log; default "<task_id>#<iteration>".

    Raises:
        Exception: what an environment raises; ``RolloutEngine`` loses that episode alone instead.
    """
    name = f"{task.task_id}#{iteration}" if group_id is None else group_id
    starts = env.reset(task=task.content, seed=seed, group_id=name)
    episodes = [
        RunningEpisode(member, *start, episode_rng(seed, iteration, task.task_id, replica))
        for replica, (member, start) in enumerate(zip(env.members, starts, strict=True))
    ]
    while running := [episode for episode in episodes if episode.running]:
        decisions = decisions_for(agent, [episode.view for episode in running])
        for episode, decision in zip(running, decisions, strict=True):
            error = episode.step(decision)
            if error is not None:
                raise error
    return RunningGroup(task, episodes).record(policy_version(agent))


def play_groups(
    env: GroupEnv, agent: Agent, tasks: Sequence[Task], *, seed: int = 0, iteration: int = 0
) -> Iterator[Group]:
    """Play one group per task; yields them in order."""
    for task in tasks:
        yield play_group(env, agent, task, seed=seed, iteration=iteration)
