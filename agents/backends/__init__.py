"""Where tokens come from: token ids in, sampled ids and log-probabilities out."""

from creditflow.agents.backends.base import (
    Backend,
    GenerationError,
    Job,
    Sampled,
    Sampling,
    TrainedBackend,
    WeightPushError,
)

__all__ = ["Backend", "GenerationError", "Job", "Sampled", "Sampling", "TrainedBackend", "WeightPushError"]
