"""DAPO's soft penalty on long responses, subtracted from rewards before credit is assigned.

Yu et al. 2025 (arXiv 2503.14476) eq. 13. Their response is a single completion; an agent has one per turn, so the length is that
of a turn, or of all turns together. The released code has no floor at −1; the equation is followed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from creditflow.train.settings.credit import OverlongConfig
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["overlong_penalty", "subtract_overlong"]


def overlong_penalty(tokens: NDArray[np.int64], max_tokens: int, margin: int) -> NDArray[np.float64]:
    """Penalty in [0, 1]: 0 up to max_tokens − margin, then linear, 1 from max_tokens on.

    >>> overlong_penalty(np.array([16384, 18432, 20480, 24576]), 20480, 4096)
    array([0. , 0.5, 1. , 1. ])

    Args:
        tokens: lengths.
        max_tokens: L_max, the longest response.
        margin: L_cache > 0, over which the penalty rises.
    """
    return np.clip((tokens - (max_tokens - margin)) / margin, 0.0, 1.0)


def subtract_overlong(groups: Sequence[Group], config: OverlongConfig) -> tuple[list[Group], dict[str, float]]:
    """Subtract the penalty from rewards; also returns the metric "overlong_fraction", of turns (or trajectories) with a penalty.

    A turn's penalty is subtracted from its own reward, a trajectory's from the reward of its last turn. Trajectories
    without tokens have no length and are unchanged.
    """
    if not config.max_tokens:
        return list(groups), {}
    changed, penalised, count = [], 0, 0
    for group in groups:
        trajectories = []
        for trajectory in group.trajectories:
            penalties = config.weight * overlong_penalty(
                _lengths(trajectory, config.unit), config.max_tokens, config.margin
            )
            penalised, count = penalised + int((penalties > 0.0).sum()), count + len(penalties)
            first = len(trajectory.turns) - len(penalties)  # of the turns that have a penalty: all, or the last
            turns = tuple(
                replace(turn, reward=turn.reward - float(penalties[t - first])) if t >= first else turn
                for t, turn in enumerate(trajectory.turns)
            )
            trajectories.append(replace(trajectory, turns=turns))
        changed.append(Group(tuple(trajectories), group.task))
    return changed, {"overlong_fraction": penalised / max(count, 1)}


def _lengths(trajectory: Trajectory, unit: str) -> NDArray[np.int64]:
    """Number of model tokens of each turn (T,), or of the trajectory (1,)."""
    tokens = trajectory.tokens
    if tokens is None or not trajectory.turns:
        return np.zeros(0, np.int64)
    before = np.concatenate([[0], np.cumsum(tokens.mask)])[tokens.turn_offsets]
    return np.diff(before) if unit == "turn" else np.array([before[-1] - before[0]])
