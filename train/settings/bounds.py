"""Bounds of numbers in settings. Imports no torch."""

from __future__ import annotations

from typing import Any

from creditflow.envs.errors import ConfigError

__all__ = ["require_at_least"]


def require_at_least(settings: Any, least: float, *names: str) -> None:
    """Check some numbers of a dataclass.

    Raises:
        ConfigError: one is less than ``least``.
    """
    for name in names:
        if getattr(settings, name) < least:
            raise ConfigError(f"{name} must be at least {least}, got {getattr(settings, name)}")
