"""Training errors: a loss or gradient that is not finite, micro-batches that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from creditflow.envs.errors import CreditflowError

__all__ = ["DivergedError", "MemoryLimitError", "memory_errors"]


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
    """A micro-batch does not fit into the memory of its device."""


@contextmanager
def memory_errors(batch_tokens: int) -> Iterator[None]:
    """Name the remedy of an out-of-memory error in a forward or backward pass.

    Args:
        batch_tokens: tokens of a micro-batch.

    Raises:
        MemoryLimitError: instead of torch's error.
    """
    import torch

    try:
        yield
    except RuntimeError as error:  # a CPU has no class of its own for it
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        raise MemoryLimitError(
            f"out of memory with micro-batches of {batch_tokens} tokens: lower update.batch_tokens, which changes no result "
            f"but rounding, or set model.gradient_checkpointing=true ({str(error)[:200]})"
        ) from error
