"""The scheme of the recipe "add a credit scheme": the outcome against the group's mean, in units of reward."""

from __future__ import annotations

from dataclasses import dataclass

from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.outcome import OutcomeScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group

__all__ = ["Centred"]


@register
@dataclass(frozen=True, kw_only=True)
class Centred(OutcomeScheme):
    """A_i = R_i − mean R; the same number on every turn."""

    name = "centred"
    source = "the recipe in CONTRIBUTING.md"
    properties = frozenset({"permutation", "one_member_zero", "shift", "homogeneous"})

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        outcome, turn_part = self.outcome_part(group, scale="none")
        return Credit.of(group, outcome=outcome, step=turn_part)
