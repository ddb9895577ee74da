"""Limits of a server."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from creditflow.envs.errors import ConfigError

__all__ = ["require_positive"]


def require_positive(limits: Any, what: str) -> None:
    """Check a dataclass of limits: those whose default is an integer must be at least 1, the others above 0.

    Raises:
        ConfigError: a limit is too low.
    """
    for field in fields(limits):
        value = getattr(limits, field.name)
        if value < 1 if isinstance(field.default, int) else value <= 0:
            raise ConfigError(f"every limit of {what} must be positive, got {limits}")
