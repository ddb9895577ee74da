"""Where tokens come from: token ids in, sampled ids and log-probabilities out."""

from creditflow.agents.backends.base import Backend, Job, Sampled, Sampling

__all__ = ["Backend", "Job", "Sampled", "Sampling"]
