"""All targets, one module for each kind of input."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Final

from fuzz.target import Target

__all__ = ["all_targets"]

MODULES: Final = (
    "logs", "credits", "configs", "episodes", "actions", "games", "shop", "wiki", "entities", "records", "commands", "replies",
    "servers", "sessions", "models", "foreign",
)  # fmt: skip


@lru_cache(maxsize=1)
def all_targets() -> tuple[Target, ...]:
    """Return all targets in the order of the modules."""
    found = [target for name in MODULES for target in import_module(f"fuzz.targets.{name}").TARGETS]
    return tuple(found)
