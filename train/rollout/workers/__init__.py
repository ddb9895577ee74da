"""Rollouts on many workers: what a worker plays, who runs workers, and how nothing gets lost or doubled."""
