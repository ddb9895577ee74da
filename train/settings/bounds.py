"""Bounds of numbers in settings. Imports no torch."""

from __future__ import annotations

from typing import Any, Final

from creditflow.envs.errors import ConfigError

__all__ = ["MAX_SEED", "require_at_least", "require_seed"]

MAX_SEED: Final = 2**32 - 1  # what every generator takes, with room for sums of seeds in the 64 bits of a log


def require_at_least(settings: Any, least: float, *names: str) -> None:
    """Check some numbers of a dataclass.

    Raises:
        ConfigError: one is less than ``least``.
    """
    for name in names:
        if getattr(settings, name) < least:
            raise ConfigError(f"{name} must be at least {least}, got {getattr(settings, name)}")


def require_seed(settings: Any) -> None:
    """Check the ``seed`` of a dataclass.

    Raises:
        ConfigError: it is negative or larger than ``MAX_SEED``.
    """
    if not 0 <= settings.seed <= MAX_SEED:
        raise ConfigError(f"seed must be a whole number from 0 to {MAX_SEED}, got {settings.seed}")
