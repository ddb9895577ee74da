"""Rollouts on many workers: the executors, and how every work item is completed exactly once."""
