"""The construction of verl issue 7244: rewards centred at each turn number, and then summed to the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.records.group import Group

__all__ = ["PerTurnNumber"]


@dataclass(frozen=True, kw_only=True)
class PerTurnNumber(Scheme):
    """Rewards centred at each turn number, summed to the end."""

    name = "per_turn_number"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        rows = [[turn.reward for turn in member.turns] for member in group.trajectories]
        means = [np.mean([row[t] for row in rows if len(row) > t]) for t in range(max(map(len, rows)))]
        parts = [np.cumsum((np.array(row) - means[: len(row)])[::-1])[::-1] for row in rows]
        return Credit.of(group, outcome=np.zeros(len(group)), step=np.concatenate(parts))
