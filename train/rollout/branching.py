"""When a rollout is forked: where the model was unsure what to do, seen in the entropy of its first words.

After ARPO (Dong et al. 2025, arXiv 2507.19849): entropy rises after a tool's answer where the way on is open, and
samples are worth more there than at the start. A branch begins at a snapshot of the environment, before the answer
that was so uncertain, and stores its own turns only. What branches leave of a group's budget, ARPO spends on fresh
episodes: that is ``refill``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError

__all__ = ["BranchConfig", "rise"]


@dataclass(frozen=True, kw_only=True)
class BranchConfig:
    """Branching of rollouts.

    Attributes:
        total: trajectories of a group at most, its branches included; 0 for no branches.
        first: how many tokens of an answer its entropy is taken over.
        base, slope, threshold: a turn is forked where base + slope · ΔH > threshold, ΔH the mean entropy (nats a
            token) of its first tokens less that of the episode's first turn. Never at the first turn: a fork there is
            an episode like any other.
        per_turn: branches that a forked turn gets.
        tokens: no group is forked any more once it has generated this many tokens; 0 for no limit. A branch's prefix
            was generated once and is counted once.
        refill: a group that forked too little plays fresh episodes, once its own are over, until it has ``total``
            (within ``tokens``), so that every task costs the same number of rollouts. They cannot fork any more.
        prefix: the advantage of turns that several trajectories share: "mean" over all of them, or that of the
            trajectory that stores them ("own").
    """

    total: int = 0
    first: int = 20
    base: float = 0.2
    slope: float = 0.4
    threshold: float = 0.5
    per_turn: int = 1
    tokens: int = 0
    refill: bool = False
    prefix: Literal["mean", "own"] = "mean"

    def __post_init__(self) -> None:
        if min(self.total, self.tokens) < 0 or min(self.first, self.per_turn) < 1:
            raise ConfigError("branching: total and tokens must not be negative, first and per_turn at least 1")

    def room(self, episodes: int, written: int) -> int:
        """How many trajectories more a group may have, which has so many and has generated so many tokens."""
        return 0 if self.tokens and written >= self.tokens else max(self.total - episodes, 0)

    def wants(self, entropy: float, at_first: float) -> bool:
        """Whether a turn with this entropy is forked, in an episode that began with that one."""
        return self.base + self.slope * (entropy - at_first) > self.threshold


def rise(entropies: NDArray[np.float32], first: int) -> float:
    """Mean entropy (nats) over the first tokens of an answer; 0 for none."""
    return float(np.mean(entropies[:first], dtype=np.float64)) if len(entropies) else 0.0
