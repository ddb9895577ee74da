"""Training errors: a loss or gradient that is not finite, micro-batches or samples that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from creditflow.envs.errors import CreditflowError
from creditflow.train.settings.rollout import GenerationConfig

__all__ = ["DivergedError", "MemoryLimitError", "memory_errors", "sampling_memory_errors"]


# in the messages of CUDA, which errors of vLLM's engine repeat, also from its own process, and of torch's allocator on a CPU
OUT_OF_MEMORY: Final = ("out of memory", "DefaultCPUAllocator")


class DivergedError(CreditflowError, ArithmeticError):
    """A loss or gradient is not finite.

    Attributes:
        trajectories: indices of the trajectories in the micro-batch where it happened.
    """

    def __init__(self, message: str, trajectories: Sequence[int]) -> None:
        """Make the error from a message and the trajectories concerned."""
        super().__init__(message)
        self.trajectories = sorted(set(trajectories))


class MemoryLimitError(CreditflowError, MemoryError):
    """A micro-batch, or the episodes that are sampled together, do not fit into the memory of the device."""


@contextmanager
def memory_errors(batch_tokens: int) -> Iterator[None]:
    """Name the remedy of an out-of-memory error in a forward or backward pass.

    Args:
        batch_tokens: tokens of a micro-batch.

    Raises:
        MemoryLimitError: instead of torch's error.
    """
    with _memory_errors(
        f"with micro-batches of {batch_tokens} tokens: lower update.batch_tokens, which changes no result but rounding, or "
        "set model.gradient_checkpointing=true"
    ):
        yield


@contextmanager
def sampling_memory_errors(generation: GenerationConfig) -> Iterator[None]:
    """Name the remedy of an out-of-memory error while episodes are sampled, or while the sampler takes new weights.

    Args:
        generation: which sampler it is.

    Raises:
        MemoryLimitError: instead of torch's error.
    """
    ours = "lower rollout.concurrent_groups, or prompting.max_context and rollout.max_new_tokens"
    vllm = "lower generation.vllm.memory, or set generation.vllm.sleep=true, which frees it during updates"
    with _memory_errors(f"while sampling: {vllm if generation.backend == 'vllm' else ours}"):
        yield


@contextmanager
def _memory_errors(remedy: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if not any(words in str(error) for words in OUT_OF_MEMORY):
            raise
        raise MemoryLimitError(f"out of memory {remedy} ({str(error)[:200]})") from error
