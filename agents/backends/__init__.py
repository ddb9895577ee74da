"""Where tokens come from: token ids in, sampled ids and log-probabilities out."""

from creditflow.agents.backends.base import (
    AnsweringBackend,
    Backend,
    Completion,
    GenerationError,
    GenerationRequest,
    Sampling,
    Submit,
    TrainedBackend,
    WeightPushError,
)

__all__ = [
    "AnsweringBackend",
    "Backend",
    "Completion",
    "GenerationError",
    "GenerationRequest",
    "Sampling",
    "Submit",
    "TrainedBackend",
    "WeightPushError",
]
