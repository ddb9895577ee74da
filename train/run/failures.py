"""Errors of training: a loss that is not a number stops the run, with its state saved."""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.envs.errors import CreditflowError

__all__ = ["DivergedError"]


class DivergedError(CreditflowError, ArithmeticError):
    """A loss or gradient that is not finite.

    Attributes:
        trajectories: numbers of the trajectories in the batch where it happened.
    """

    def __init__(self, message: str, trajectories: Sequence[int]) -> None:
        """A message and the trajectories concerned."""
        super().__init__(message)
        self.trajectories = sorted(set(trajectories))
