"""Stop reasons of episodes, and the type of terminal node that each makes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

__all__ = ["ANSWERED", "FAILED", "GOAL", "OPEN", "STOP_REASONS", "TRUNCATED", "StopReason"]

StopReason = Literal["success", "failed", "env_limit", "token_limit", "tool_limit", "format", "env_error"]
# the agent answered, correctly or not; a format error and truncation are not answers
ANSWERED: frozenset[StopReason] = frozenset({"success", "failed"})
OPEN, GOAL, FAILED, TRUNCATED = 0, 1, 2, 3
# type of each stop reason: truncation carries no information about the state, failure does
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
