"""Gymnasium's own small environments, in the newest version that the installed release has."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

__all__ = ["CLIFF", "NOISY", "TAXI", "limited"]


def newest(name: str) -> str:
    """The id of a name's newest version."""
    versions = [spec.version or 0 for spec in gym.registry.values() if spec.name == name and spec.namespace is None]
    return f"{name}-v{max(versions)}"


CLIFF, TAXI, NOISY = newest("CliffWalking"), newest("Taxi"), newest("FrozenLake8x8")


def limited(name: str) -> Any:
    """The environment with at most 60 steps."""
    return gym.make(name, max_episode_steps=60)
