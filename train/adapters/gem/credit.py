"""What a GEM environment's ``info`` holds, as plain data that can be copied, and the credit of episodes that its loops played. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.text_episode import TextEpisode
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import FIELD, assign_episodes, read_record

__all__ = ["PREVIOUS", "assign_infos", "final_info", "step_info"]

PREVIOUS: Final = "prev_ep_"  # GEM's prefix of what a reset reports of the episode before it
_COPIED: Final = ("state_key", "text_key", "task_id", "score", "invalid_reason")


def step_info(episode: TextEpisode) -> dict[str, Any]:
    """The info of a reset, or of a step.

    Keys: ``state_key``, ``text_key``, ``task_id``, ``score``, ``invalid_reason`` (texts, a number); ``won`` and
    ``is_action_valid``; ``admissible_actions``, a list, empty where it would reveal the answer; at the end the episode's record under ``creditflow``, in which a step that failed
    in the environment is no turn.
    """
    info = episode.info
    values: dict[str, Any] = {name: info[name] for name in _COPIED}
    values["won"], values["is_action_valid"] = bool(info["success"]), episode.last_valid
    values["admissible_actions"] = [] if episode.reveals_answer else list(info["admissible_actions"])
    if episode.done and episode.trajectory.stop_reason == "env_error":  # the rest is of the turn before
        values["is_action_valid"] = False
    return {**values, **final_info(episode)}


def final_info(episode: TextEpisode | None, prefix: str = "") -> Mapping[str, Any]:
    """Record and success of a finished episode; nothing of one that runs."""
    if episode is None or not episode.done:
        return {}
    return {f"{prefix}{FIELD}": episode.record(), f"{prefix}won": episode.trajectory.success}


def assign_infos(
    infos: Sequence[Mapping[str, Any]], scheme: Scheme, names: Sequence[str] = ()
) -> list[NDArray[np.float64]]:
    """For every finished episode float64 (T_i,), its advantages per turn.

    Args:
        infos: per episode the info of its last step, or that of the reset after it, where a vector environment
            resets by itself (``SAME_STEP``) and keeps only the latter.
        scheme: any scheme without annotations.
        names: the group of each episode; default its task, so that all episodes of a task are one group.

    Raises:
        TrajectoryError: an info without a record, a group of one, episodes of several tasks in one group, or another
            number of names than infos.
        ConfigError: a scheme that reads annotations, credits tokens or learns a critic.
    """
    if names and len(names) != len(infos):
        raise TrajectoryError(f"{len(infos)} infos need as many names of groups, got {len(names)}")
    records = [info.get(FIELD, info.get(PREVIOUS + FIELD)) for info in infos]
    episodes = [read_record(record, f"episode {i}") for i, record in enumerate(records)]
    tasks = [trajectory.task_id for trajectory, _ in episodes]
    return [per_turn for _, per_turn in assign_episodes(episodes, names or tasks, scheme)]
