"""The schema of ``info``, one for all environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

__all__ = ["INFO_TYPES", "AgentInfo"]


class AgentInfo(TypedDict):
    """Keys of ``info`` after ``reset`` and every ``step``; environments add their own flat keys.

    Every key always has the same type, as vector environments take each column's dtype from the first environment.
    """

    task_id: str  #: names the task by its content, on any machine
    state_key: str  #: printable, ≤ 64 characters; equal keys ⇔ equal future up to the step limit
    text_key: str  #: the state as a text-only method would see it
    admissible_actions: tuple[str, ...]  #: () once the episode is over
    action_parsed: bool  #: the text of the answer is an action
    action_admissible: bool  #: the rules allow it in this state
    action_valid: bool  #: parsed and admissible
    action_effective: bool  #: the state changed
    invalid_reason: str  #: "" if valid
    success: bool  #: the task is solved; only then does an episode end as a success
    score: float  #: graded outcome, in [0, 1]
    elapsed_steps: int  #: steps since the reset


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
