"""Where tokens come from: token ids in, sampled ids and log-probabilities out."""

from creditflow.agents.backends.base import (
    Backend,
    Completion,
    GenerationError,
    GenerationRequest,
    Sampling,
    TrainedBackend,
    WeightPushError,
)

__all__ = [
    "Backend",
    "Completion",
    "GenerationError",
    "GenerationRequest",
    "Sampling",
    "TrainedBackend",
    "WeightPushError",
]
