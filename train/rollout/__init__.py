"""Rollouts: agents play groups of episodes, in one process or on many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from creditflow.train.rollout.play import play_group, play_groups

__all__ = ["play_group", "play_groups"]


def __getattr__(name: str) -> Any:
    """What plays episodes imports agents; the modules that only name plug-ins need none."""
    if name in __all__:
        from creditflow.train.rollout import play

        return getattr(play, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
