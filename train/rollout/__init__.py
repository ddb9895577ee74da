"""Rollouts: agents play groups of episodes, in one process or on many workers."""
