"""The schema of ``info``, one for all environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

__all__ = ["INFO_TYPES", "AgentInfo"]


class AgentInfo(TypedDict):
    """Keys of ``info`` after ``reset`` and every ``step``; environments add flat keys of their own.

    Every key always has the same type, as vector environments take each column's dtype from the first environment.
    """

    task_id: str
    state_key: str  # printable, ≤ 64 characters; equal keys ⇔ equal future up to the step limit
    text_key: str  # the state as a text-only method would see it
    admissible_actions: tuple[str, ...]  # () once the episode is over
    action_parsed: bool
    action_admissible: bool
    action_valid: bool  # parsed and admissible
    action_effective: bool  # the state changed
    invalid_reason: str  # "" if valid
    success: bool
    score: float  # in [0, 1]
    elapsed_steps: int


INFO_TYPES: Mapping[str, type] = {
    "task_id": str,
    "state_key": str,
    "text_key": str,
    "admissible_actions": tuple,
    "action_parsed": bool,
    "action_admissible": bool,
    "action_valid": bool,
    "action_effective": bool,
    "invalid_reason": str,
    "success": bool,
    "score": float,
    "elapsed_steps": int,
}
