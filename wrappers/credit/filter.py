"""Dynamic sampling: drop groups whose outcomes are all equal, or vary less than those of the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.credit.outcome import Outcome, outcome_scores
from creditflow.wrappers.records.group import Group

__all__ = ["filter_groups"]


def filter_groups(
    groups: Sequence[Group],
    *,
    outcome: Outcome = "return",
    tolerance: float = 0.0,
    top_p: float = 1.0,
    keep_all: bool = False,
) -> list[Group]:
    """Return the groups whose outcomes are not all equal (DAPO; "+DS" in GraphGPO's tables), or those that vary most (RAGEN-2).

    RAGEN-2 (arXiv 2604.06268; mll-lab-nu/RAGEN @ 20daedc, ``rollout_filter_top_p_prob_mode: linear``) filters by the
    "reward variance", which its code measures by the standard deviation: groups in descending order, until they have
    ``top_p`` of the sum over all groups. The code subtracts 0.01 from that threshold, whereas here only rounding is
    forgiven.

    Args:
        groups: groups to filter.
        outcome: which outcome is compared. Penalties do not count.
        tolerance: outcomes that differ by no more than this count as equal. 0 is the published rule, under which groups
            with dense rewards are rarely dead.
        top_p: share of the sum of standard deviations that the groups kept must have, in (0, 1]. 1 keeps all with
            unequal outcomes.
        keep_all: keep every group, as the released loop does on its last attempt.

    Returns:
        The groups kept, in order. The caller should count the others: sampling them took environment turns as well.

    Raises:
        ConfigError: the tolerance is negative or NaN, ``top_p`` is not in (0, 1], or the outcome is unknown.
    """
    if not tolerance >= 0:  # NaN included
        raise ConfigError(f"tolerance must be ≥ 0, got {short_repr(tolerance)}")
    if not 0.0 < top_p <= 1.0:
        raise ConfigError(f"top_p must lie in (0, 1], got {short_repr(top_p)}")
    if keep_all:
        return list(groups)
    with np.errstate(over="ignore"):  # a range beyond float64 is infinite, and wider than any tolerance
        alive = [group for group in groups if np.ptp(outcome_scores(group, outcome)) > tolerance]
    if top_p == 1.0:
        return alive
    scores = [outcome_scores(group, outcome) for group in alive]
    unit = max((np.abs(x).max() for x in scores), default=1.0)  # so that no square overflows or vanishes
    deviation = np.array([(x / unit).std(ddof=1) for x in scores])
    order = np.argsort(-deviation, kind="stable")
    before = np.cumsum(deviation[order]) - deviation[order]
    enough = top_p * deviation.sum() * (1.0 - 1e-9)
    return [alive[i] for i in np.sort(order[before < enough]).tolist()]
