"""Training errors: a non-finite loss or gradient stops the run and saves its state."""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.envs.errors import CreditflowError

__all__ = ["DivergedError"]


class DivergedError(CreditflowError, ArithmeticError):
    """A loss or gradient is not finite.

    Attributes:
        trajectories: indices of the trajectories in the micro-batch where it happened.
    """

    def __init__(self, message: str, trajectories: Sequence[int]) -> None:
        """Make the error from a message and the trajectories concerned."""
        super().__init__(message)
        self.trajectories = sorted(set(trajectories))
