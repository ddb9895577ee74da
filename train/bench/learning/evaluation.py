"""Exact success of policies on the training tasks and on the held-out tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.learning.policy import Policy
from creditflow.train.bench.learning.stack import StackedTasks

__all__ = ["Evaluation"]

Floats = NDArray[np.float64]
CHUNK: Final = 16  # policies evaluated together: as many as stay in a core's cache


class Evaluation:
    """Exact success of policies, which are added one at a time and evaluated in batches.

    Args:
        mdps: all tasks.
        train, held_out: indices of the training tasks and of the held-out tasks; the latter may be empty.
    """

    def __init__(self, mdps: Sequence[FiniteMDP], train: Sequence[int], held_out: Sequence[int]) -> None:
        self._tasks, self._trained = [*train, *held_out], len(train)
        self._stack = StackedTasks([mdps[i] for i in self._tasks])
        self._waiting, self._success = list[Floats](), list[Floats]()

    def add(self, policy: Policy) -> int:
        """Add a policy; returns its number."""
        self._waiting.append(np.concatenate(policy.probabilities(self._tasks)))
        if len(self._waiting) == CHUNK:
            self._finish()
        return len(self._success) + len(self._waiting) - 1

    def means(self, numbers: Sequence[int]) -> Floats:
        """float64 (n, 2): mean success of these policies on the training tasks, and on the held-out tasks (nan if there are none)."""
        self._finish()
        rates = np.array([self._success[i] for i in numbers]).reshape(len(numbers), -1)
        train, held_out = rates[:, : self._trained], rates[:, self._trained :]
        held_out_mean = held_out.mean(axis=1) if held_out.size else np.full(len(numbers), np.nan)
        return np.stack([train.mean(axis=1), held_out_mean], axis=1)

    def _finish(self) -> None:
        if self._waiting:
            self._success += list(self._stack.success(np.stack(self._waiting)))
            self._waiting = []
