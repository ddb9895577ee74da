"""Dynamic sampling: drop dead groups, whose outcomes are all equal."""

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
    """Return the groups whose outcomes are not all equal (DAPO; "+DS" in GraphGPO's tables).

    Args:
        groups: groups to filter.
        outcome: which outcome is compared; penalties do not count.
        tolerance: outcomes that differ by no more than this count as equal. 0 is the published rule, under which groups
            with dense rewards are rarely dead.
        keep_all: keep every group, as the released loop does on its last attempt.

    Returns:
        The groups kept, in order. The caller should count the others: sampling them took environment turns as well.

    Raises:
        ConfigError: the tolerance is negative, or the outcome is unknown.
    """
    if tolerance < 0:
        raise ConfigError(f"tolerance must be ≥ 0, got {short_repr(tolerance)}")
    return [group for group in groups if keep_all or np.ptp(outcome_scores(group, outcome)) > tolerance]
