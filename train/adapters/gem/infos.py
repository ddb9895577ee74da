"""What a GEM environment's ``info`` holds: what credit and a trainer need, as plain data that can be copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from creditflow.train.adapters.text_episode import TextEpisode
from creditflow.wrappers.credit.bridge import FIELD

__all__ = ["PREVIOUS", "final_info", "step_info"]

PREVIOUS: Final = "prev_ep_"  # GEM's prefix of what a reset reports of the episode before it
_COPIED: Final = ("state_key", "text_key", "task_id", "score", "invalid_reason")


def step_info(episode: TextEpisode, reward: float = 0.0) -> dict[str, Any]:
    """The info of a reset, or of a step with this reward.

    Keys: ``state_key``, ``text_key``, ``task_id``, ``score``, ``invalid_reason`` (texts, a number); ``won`` and
    ``is_action_valid``; ``admissible_actions``, a list, empty where it would reveal the answer; ``raw_reward`` and
    ``shaping``, the two parts of the reward; at the end the episode's record under ``creditflow``, in which a step that failed
    in the environment is no turn.
    """
    info = episode.info
    found: dict[str, Any] = {name: info[name] for name in _COPIED}
    found["won"], found["is_action_valid"] = bool(info["success"]), episode.last_valid
    found["admissible_actions"] = [] if episode.reveals_answer else list(info["admissible_actions"])
    found["raw_reward"], found["shaping"] = float(info.get("raw_reward", reward)), float(info.get("shaping", 0.0))
    if episode.done and episode.trajectory.stop_reason == "env_error":  # the rest is of the turn before
        found |= {"is_action_valid": False, "raw_reward": reward, "shaping": 0.0}
    return {**found, **final_info(episode)}


def final_info(episode: TextEpisode | None, prefix: str = "") -> Mapping[str, Any]:
    """Record and success of a finished episode; nothing of one that runs."""
    if episode is None or not episode.done:
        return {}
    return {f"{prefix}{FIELD}": episode.record(), f"{prefix}won": episode.trajectory.success}
