"""What a log says about the schemes that suit it, as numbers: how often keys repeat, how they alias, sizes, outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from creditflow.envs.errors import DataError
from creditflow.train.analyses.audit import key_statistics
from creditflow.wrappers.records.group import Group

__all__ = ["MEANING", "LogFeatures", "log_features", "mean_features"]


@dataclass(frozen=True, slots=True)
class LogFeatures:
    """Numbers on which a choice can depend; fractions in [0, 1].

    Attributes:
        repeated: fraction of turns in a state that the group acted in more than once.
        conflicted: fraction of turns in a state in which some action had different results.
        size: trajectories in a group, mean.
        batch: groups in an update.
        success: fraction of trajectories.
        all_failed: fraction of groups without a success.
        graded: fraction of trajectories with a score between 0 and 1.
        step_rewards: fraction of turns but the last with a reward.
        length: turns of a trajectory, mean.
        length_spread: standard deviation of the lengths over their mean.
    """

    repeated: float
    conflicted: float
    size: float
    batch: float
    success: float
    all_failed: float
    graded: float
    step_rewards: float
    length: float
    length_spread: float

    def to_json(self) -> dict[str, float]:
        """Plain JSON values, four digits."""
        return {name: float(f"{value:.4g}") for name, value in asdict(self).items()}


# feature -> what it is, in a sentence of the form "if X is at least ..."
MEANING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "repeated": "the fraction of turns in states that the group acted in more than once",
        "conflicted": "the fraction of turns in states in which one action had different results",
        "size": "the group size",
        "batch": "the number of groups in an update",
        "success": "the fraction of successes",
        "all_failed": "the fraction of groups without a success",
        "graded": "the fraction of trajectories with a score between 0 and 1",
        "step_rewards": "the fraction of turns with a reward before the end",
        "length": "the mean number of turns",
        "length_spread": "the standard deviation of lengths over their mean",
    }
)


def log_features(groups: Sequence[Group], *, key: Literal["state", "text"] = "state", batch: int = 0) -> LogFeatures:
    """The features of a log.

    Args:
        groups: groups of the log.
        key: which key schemes compare states by.
        batch: groups in an update; 0: all groups of the log are one update.

    Raises:
        DataError: the log has no turns.
        TrajectoryError: it has no keys of this kind.
    """
    if not any(len(group.arrays.reward) for group in groups):
        raise DataError("the log has no turns, from which a scheme is recommended; record episodes with turns")
    keys = key_statistics(groups, key)
    arrays = [group.arrays for group in groups]
    lengths = np.concatenate([np.diff(group.episode_index.offsets) for group in groups]).astype(np.float64)
    score = np.concatenate([a.score for a in arrays])
    before_end = np.concatenate([(a.reward != 0.0) & ~a.last for a in arrays])
    return LogFeatures(
        repeated=1.0 - keys.singletons,
        conflicted=keys.conflicted,
        size=float(np.mean([len(group) for group in groups])),
        batch=float(batch or len(groups)),
        success=float(np.concatenate([a.success for a in arrays]).mean()),
        all_failed=float(np.mean([not a.success.any() for a in arrays])),
        graded=float(((score > 0.0) & (score < 1.0)).mean()),
        step_rewards=float(before_end.mean()),
        length=float(lengths.mean()),
        length_spread=float(lengths.std() / lengths.mean()) if lengths.any() else 0.0,
    )


def mean_features(several: Sequence[LogFeatures]) -> LogFeatures:
    """The means of the features of several logs."""
    values: dict[str, Any] = {
        f.name: float(np.mean([getattr(one, f.name) for one in several])) for f in fields(LogFeatures)
    }
    return LogFeatures(**values)
