"""Dynamic sampling: leave out groups that cannot teach because all their outcomes are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.credit.outcome import outcome_scores
from creditflow.wrappers.records.group import Group

__all__ = ["filter_groups"]


def filter_groups(
    groups: Sequence[Group],
    *,
    outcome: Literal["return", "success", "score"] = "return",
    tolerance: float = 0.0,
    keep_all: bool = False,
) -> list[Group]:
    """Groups whose outcomes are not all equal (DAPO; "+DS" in GraphGPO's tables).

    Args:
        groups: candidates.
        outcome: what is compared; penalties never enter.
        tolerance: outcomes this close count as equal. 0 is the published rule, which dense rewards rarely meet.
        keep_all: return everything, as the released loop does on its last attempt.

    Returns:
        The groups kept, in order. The caller counts the others: they cost environment turns.
    """
    if tolerance < 0:
        raise ConfigError(f"tolerance must be ≥ 0, got {short_repr(tolerance)}")
    return [group for group in groups if keep_all or np.ptp(outcome_scores(group, outcome)) > tolerance]
