"""Rollouts: agents play groups of episodes, in one process or on many workers."""

from creditflow.train.rollout.play import play_group, play_groups

__all__ = ["play_group", "play_groups"]
