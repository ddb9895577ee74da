"""Why an episode ended, and what kind of end that is for the state it ended in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

__all__ = ["ANSWERED", "FAILED", "GOAL", "OPEN", "STOP_REASONS", "TRUNCATED", "StopReason"]

StopReason = Literal["success", "failed", "env_limit", "token_limit", "tool_limit", "format", "env_error"]
# the agent gave an answer, right or wrong; a reply without the right form is none, nor is an end by a limit
ANSWERED: frozenset[StopReason] = frozenset({"success", "failed"})
OPEN, GOAL, FAILED, TRUNCATED = 0, 1, 2, 3
# what kind of end each stop reason is: a limit says nothing about the state it fell on, a failure does
STOP_REASONS: Mapping[str, int] = MappingProxyType(
    {
        "success": GOAL,
        "failed": FAILED,
        "format": FAILED,
        "env_limit": TRUNCATED,
        "token_limit": TRUNCATED,
        "tool_limit": TRUNCATED,
        "env_error": TRUNCATED,
    }
)
