"""Continuations: play a recorded episode on from one of its states, several times, with fresh randomness.

Their mean score estimates the value of a state for a policy that is no table (a language model, an agent with memory), for
which exact values do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from creditflow.agents.base import Agent, decisions_for
from creditflow.train.rollout.running import RunningEpisode
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["continue_from"]


def continue_from(
    members: Sequence[Recorder],
    agent: Agent,
    snapshot: str,
    history: Sequence[Turn],
    rng: np.random.Generator,
    *,
    options: Mapping[str, Any],
    seed: int = 0,
) -> list[RunningEpisode]:
    """Play one continuation in every member to its end, in lock step, so that a language model answers them in one batch.

    Args:
        members: K recorded environments.
        agent: chooses the actions; its views hold the history before the turns of the continuation.
        snapshot: snapshot of the state to continue from; no state where the episode is over.
        history: the recorded turns before that state.
        rng: two numbers are drawn for every continuation: the environment's own seed, then the agent's.
        options, seed: with which ``reset`` starts the recorded task.

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
        start = member.branch(snapshot)
        member.base.np_random = np.random.Generator(np.random.PCG64(int(rng.integers(2**63))))
        agent_rng = np.random.default_rng(int(rng.integers(2**63)))
        episodes.append(RunningEpisode(member, *start, agent_rng, prefix=tuple(history)))
    while running := [episode for episode in episodes if episode.running]:
        decisions = decisions_for(agent, [episode.view for episode in running])
        for episode, decision in zip(running, decisions, strict=True):
            error = episode.step(decision)
            if error is not None:
                raise error
    return episodes
