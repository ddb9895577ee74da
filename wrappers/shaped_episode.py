"""An episode as a potential reads it: keys and features of its states; and what a store learns from it at its end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.feature_potential import FeaturePotentials, FeatureStore, Store, Version
from creditflow.wrappers.potentials import PotentialStore
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["ShapedEpisode"]


@dataclass(slots=True)
class ShapedEpisode:
    """An episode of T turns so far.

    Attributes:
        task: key of its task.
        keys: state key and text key of its T + 1 states.
        rows: features of its observations, float64 (size,) each, if the potential reads them.
        turns: the turns, if a store will learn from them.
    """

    task: str
    keys: list[tuple[str, str]]
    rows: list[NDArray[np.float64]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    def potential(self, version: Version, t: int, *, by_text: bool) -> float | None:
        """Φ of the state before turn t; None if the version does not know it, or its observation was not recorded.

        Args:
            version: a version of Φ.
            t: from 0 to T.
            by_text: whether the text key identifies a state.
        """
        if isinstance(version, FeaturePotentials):
            return version.of(self.rows[t]) if t < len(self.rows) else None
        past = self.keys[max(0, t - version.depth) : t + 1]
        return version.of(self.task, *(text if by_text else state for state, text in past))

    def finish(self, store: Store | Version, success: bool, score: float, reason: StopReason) -> None:
        """Give the episode, which has ended, to a store that learns."""
        if store.frozen or not self.turns:
            return
        if isinstance(store, FeatureStore):
            store.observe(self.rows[: len(self.turns)], [turn.reward for turn in self.turns])
        elif isinstance(store, PotentialStore):
            names = (self.task, self.task, self.task)
            store.observe(Trajectory(*names, tuple(self.turns), success, score, reason, *self.keys[-1]))
