"""Sokoban in Gymnasium's vector environment of one process."""

from __future__ import annotations

from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode, SyncVectorEnv

from creditflow.envs.sokoban import SokobanEnv

__all__ = ["sokoban_vector"]


def sokoban_vector(num_envs: int, *, autoreset_mode: str = "NextStep", **options: Any) -> SyncVectorEnv:
    """Make equal environments with these options."""
    return SyncVectorEnv([partial(SokobanEnv, **options)] * num_envs, autoreset_mode=AutoresetMode(autoreset_mode))
