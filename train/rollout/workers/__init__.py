"""Rollouts on processes of this machine: one pool, and what a worker plays."""
