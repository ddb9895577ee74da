"""Play groups of one task each with an agent, or continuations of an episode; every episode is reproducible by itself.

Each episode draws from its own generator, seeded by (seed, iteration, task, replica), so results do not depend on
batch order, on which other tasks are played, or on how many workers there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Agent, Decision, RecordedHistory, Resuming, View, decisions_for
from creditflow.envs.tasks import Task
from creditflow.train.rollout.replay import ReplayedState
from creditflow.train.rollout.running import RunningEpisode, RunningGroup, policy_version
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["continue_from", "episode_rng", "play_group", "play_groups"]


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
    _play(episodes, agent)
    return RunningGroup(task, episodes).record(policy_version(agent))


def play_groups(
    env: GroupEnv, agent: Agent, tasks: Sequence[Task], *, seed: int = 0, iteration: int = 0
) -> Iterator[Group]:
    """Play one group per task; yields them in order."""
    for task in tasks:
        yield play_group(env, agent, task, seed=seed, iteration=iteration)


def continue_from(
    members: Sequence[Recorder],
    agent: Agent,
    states: Sequence[ReplayedState],
    history: Sequence[Turn],
    rng: np.random.Generator,
    *,
    options: Mapping[str, Any],
    seed: int = 0,
    first: str | None = None,
    completions: Sequence[NDArray[np.int32] | None] = (),
) -> list[RunningEpisode]:
    """Play a recorded episode on from one of its states: one continuation in every member, in lock step, as one batch of a language model.

    Their mean score estimates the value of a state for a policy that is no table (a language model, an agent with memory), for
    which exact values do not exist.

    Args:
        members: K recorded environments.
        agent: chooses the actions; its views hold the history before the turns of the continuation.
        states: the states before every recorded turn, and the one to continue from, in which the episode is not over.
        history: the recorded turns before that state.
        rng: two numbers are drawn for every continuation: the environment's own seed, then the agent's.
        options, seed: with which ``reset`` starts the recorded task.
        first: text of an action that is taken before the agent chooses; None for none.
        completions: for each recorded turn the ids of its completion, None where they are unknown; () if none are known.

    Returns:
        The finished episodes: ``info["score"]``, ``info["success"]``, and a record of the new turns.

    Raises:
        EpisodeError: the snapshot is of the end of an episode.
        Exception: what an environment raises.
    """
    episodes = []
    for replica, member in enumerate(members):
        member.set_next_episode(replica=replica)
        member.reset(seed=seed, options=dict(options))
        start = member.branch(states[-1].snapshot)
        member.base.np_random = np.random.Generator(np.random.PCG64(int(rng.integers(2**63))))
        agent_rng = np.random.default_rng(int(rng.integers(2**63)))
        episodes.append(RunningEpisode(member, *start, agent_rng, prefix=tuple(history)))
    past = [
        View(state.observation, state.info, tuple(history[:t]), members[0].base, rng)
        for t, state in enumerate(states[:-1])
    ]
    if first is not None:
        past.append(episodes[0].view)
        _step(episodes, [Decision(member.base.action_from_text(first)) for member in members])
        history, completions = episodes[0].view.turns, (*completions, None) if completions else ()
    if isinstance(agent, Resuming):
        recorded = RecordedHistory(past, history, completions or [None] * len(history))
        agent.resume(recorded, [member.base for member in members])
    _play(episodes, agent)
    return episodes


def _play(episodes: Sequence[RunningEpisode], agent: Agent) -> None:
    """Play the episodes to their ends, in lock step; an environment's error is raised."""
    while running := [episode for episode in episodes if episode.running]:
        _step(running, decisions_for(agent, [episode.view for episode in running]))


def _step(episodes: Sequence[RunningEpisode], decisions: Sequence[Decision]) -> None:
    """Take one decision in every episode; an environment's error is raised."""
    for episode, decision in zip(episodes, decisions, strict=True):
        error = episode.step(decision)
        if error is not None:
            raise error
