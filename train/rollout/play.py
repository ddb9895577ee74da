"""Play groups of one task each with an agent; every episode is reproducible by itself.

Each episode draws from its own generator, seeded by (seed, iteration, task, replica), so results do not depend on
batch order, on which other tasks are played, or on how many workers there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from creditflow.agents.base import Agent, View, decisions_for
from creditflow.envs.tasks import Task
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
    """
    name = f"{task.task_id}#{iteration}" if group_id is None else group_id
    starts = env.reset(task=task.content, seed=seed, group_id=name)
    latest = dict(enumerate(starts))
    rngs = [episode_rng(seed, iteration, task.task_id, replica) for replica in range(len(starts))]
    while env.active:
        views = [View(*latest[i], env.members[i].turns, env.members[i].base, rngs[i]) for i in env.active]
        decisions = dict(zip(env.active, decisions_for(agent, views), strict=True))
        actions = {}
        for i, decision in decisions.items():
            if decision.stop is not None:
                env.stop(i, decision.stop)
                continue
            env.members[i].record_response(thought=decision.thought, response=decision.response)
            actions[i] = decision.action
        for i, step in env.step(actions).items():
            latest[i] = step.observation, step.info
    return env.group()


def play_groups(
    env: GroupEnv, agent: Agent, tasks: Sequence[Task], *, seed: int = 0, iteration: int = 0
) -> Iterator[Group]:
    """Play one group per task; yields them in order."""
    for task in tasks:
        yield play_group(env, agent, task, seed=seed, iteration=iteration)
