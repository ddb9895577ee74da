"""``forks:K``: Monte Carlo estimates of a turn's value: K continuations from the snapshots before and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import gymnasium as gym
import numpy as np

from creditflow.agents.base import Agent
from creditflow.agents.registry import make_agent
from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.train.annotate.base import AnnotationError, Annotations, EpisodeAnnotator, Provenance, boundaries
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.rollout.forks import fork_values
from creditflow.train.rollout.replay import env_seed, full_episode
from creditflow.train.run.identity import agent_identity
from creditflow.wrappers.records.group import Group

__all__ = ["ForksAnnotator", "make"]


class ForksAnnotator(EpisodeAnnotator):
    """Writes ``fork.value`` of the states before and after each turn, and ``fork.q``, which is the one after.

    Each is the mean score of K continuations; the states before turn t + 1 and after turn t share theirs.

    Args:
        make_env: makes the environment of the log.
        agent: plays the continuations.
        continuations: K ≥ 2.
        seed: seed of the continuations; each trajectory has its own generator.
        name: name of the agent.
        options: arguments of the environment, for the provenance.
    """

    turn_names = ("fork.value", "fork.value.next", "fork.q")

    def __init__(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        agent: Agent,
        continuations: int,
        *,
        seed: int,
        name: str,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if continuations < 2:
            raise ConfigError(f"forks need at least two continuations, got {short_repr(continuations)}")
        self._make, self._agent, self._k, self._seed = make_env, agent, continuations, seed
        about = {"continuations": continuations, "agent": name, "seed": seed}
        self.provenance = Provenance(
            "forks",
            1,
            about | ({"options": dict(options)} if options else {}),
            agent_identity(name).get("model", ""),
        )

    def annotate_member(self, group: Group, index: int) -> Annotations:
        """The annotations of one trajectory, from a replay.

        Raises:
            AnnotationError: an episode of another environment.
        """
        member = group.trajectories[index]
        turns = full_episode(group, index)
        first = len(turns) - len(member.turns)
        if not member.turns:
            return Annotations(boundaries("fork.value", np.zeros(1)) | {"fork.q": np.zeros(0)})
        name = f"{group.group_id}\0{member.trial}\0{member.trajectory_id}".encode()
        rng = np.random.default_rng([self._seed, int.from_bytes(blake2b(name, digest_size=8).digest(), "big")])
        try:
            forks = fork_values(
                self._make,
                self._agent,
                replace(member, turns=turns, parent="", fork_turn=-1, tokens=None),
                rng,
                continuations=self._k,
                turns=range(first, len(turns)),
                seed=env_seed(member),
                task=group.task,
            )
        except DataError as error:
            raise AnnotationError(str(error)) from error
        values = np.append(forks.before[first:].mean(axis=1), forks.after[-1].mean())
        return Annotations(boundaries("fork.value", values) | {"fork.q": values[1:]})


def make(argument: str, context: Context) -> ForksAnnotator:
    """The annotator ``forks:K``."""
    settings = settings_of("forks", context, {"agent": "random", "seed": 0})
    if not argument.isdecimal():
        raise ConfigError(f"forks:K takes a number of continuations, got {short_repr(argument)}")
    return ForksAnnotator(
        context.environment("forks"), make_agent(settings["agent"]), int(argument), seed=settings["seed"],
        name=settings["agent"], options=context.options,
    )  # fmt: skip
