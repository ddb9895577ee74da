"""``oracle``: the environment's own knowledge of every state, read along a replay of the episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import gymnasium as gym
import numpy as np

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import DataError
from creditflow.train.annotate.base import AnnotationError, Annotations, EpisodeAnnotator, Provenance, boundaries
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.rollout.replay import env_seed, full_episode, replay
from creditflow.wrappers.records.group import Group

__all__ = ["OracleAnnotator", "make"]


class OracleAnnotator(EpisodeAnnotator):
    """Writes ``value.oracle`` and ``distance.oracle``, as ``Recorder(oracle=True)`` does; ∞ is written as −1.

    Args:
        make_env: makes the environment of the log.
        options: arguments of the environment, for the provenance.
    """

    turn_names = ("value.oracle", "value.oracle.next", "distance.oracle", "distance.oracle.next")

    def __init__(self, make_env: Callable[[], gym.Env[Any, Any]], options: Mapping[str, Any] | None = None) -> None:
        self._env = cast("AgentEnv[Any, Any, Any]", make_env().unwrapped)
        about = {"env": self._env.env_name, "exact": bool(self._env.oracle.exact)}
        self.provenance = Provenance("oracle", 1, about | ({"options": dict(options)} if options else {}))

    def annotate_member(self, group: Group, index: int) -> Annotations:
        """The annotations of one trajectory, from a replay.

        Raises:
            AnnotationError: an episode of another environment.
        """
        trajectory = group.trajectories[index]
        try:
            replayed = replay(
                self._env,
                full_episode(group, index),
                task_id=group.task_id,
                task=group.task,
                seed=env_seed(trajectory),
                stop_reason=trajectory.stop_reason,
            )
        except DataError as error:
            raise AnnotationError(f"trajectory {trajectory.trajectory_id!r}: {error}") from error
        of_turns = [state.snapshot for state in replayed[len(replayed) - 1 - len(trajectory.turns) :]]
        oracle = self._env.oracle
        distances = [oracle.distance(state) for state in of_turns]
        return Annotations(
            boundaries("value.oracle", np.array([oracle.value(state) for state in of_turns]))
            | boundaries("distance.oracle", np.array([-1.0 if math.isinf(d) else d for d in distances]))
        )


def make(argument: str, context: Context) -> OracleAnnotator:  # noqa: ARG001 - the registry rejects an argument
    """The annotator ``oracle``."""
    settings_of("oracle", context, {})
    return OracleAnnotator(context.environment("oracle"), context.options)
