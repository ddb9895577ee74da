"""Weights between tasks, for every scheme: credit centred in each group, and divided by the group's success rate.

Schemes differ in how much credit a group gets in all: division by the deviation of few successes gives hard tasks large weights,
uncentred credit pushes all turns of a group up or down. Two schemes that are compared should have the same weights, and one may
choose them apart from the scheme: ``make(NAME, centre="group", divide_by_success=True)`` does so for any of them, and
so do ``--set`` and ``credit.parameters`` of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, ClassVar, Final, Literal

import numpy as np

from creditflow.wrappers.credit.base import STEP, Credit, Scheme, check_parameter
from creditflow.wrappers.credit.outcome import outcome_scores
from creditflow.wrappers.records.group import Group

__all__ = ["SHARED_OPTIONS", "weighted"]

SHARED_OPTIONS: Final = {"centre": Literal["none", "group"], "divide_by_success": bool}


def weighted(scheme: Scheme, *, centre: Literal["none", "group"] = "none", divide_by_success: bool = False) -> Scheme:
    """The scheme with other weights between groups, or itself with the defaults.

    The result is an instance of the scheme's class, with its parameters, and declares no properties.

    Args:
        scheme: any scheme.
        centre: "group" subtracts from the credit of every turn the mean over the group's turns in the loss.
        divide_by_success: divide the credit of a group by ρ = (Σ_i R_i + 1) / (G + 2), with graded outcomes R_i in [0, 1].

    Raises:
        ConfigError: an option has another value.
    """
    for name, value in (("centre", centre), ("divide_by_success", divide_by_success)):
        check_parameter(scheme.name, name, value, SHARED_OPTIONS[name])
    return scheme if centre == "none" and not divide_by_success else _weighted(scheme, centre, divide_by_success)


@cache
def _weighted(scheme: Scheme, centre: str, divide: bool) -> Scheme:
    kind = type(scheme)
    attributes = {"inner": scheme, "centred": centre == "group", "divided": divide, "__module__": __name__}
    values = {field.name: getattr(scheme, field.name) for field in fields(scheme)}
    instance: Scheme = type(f"Weighted{kind.__name__}", (_Weights, kind), attributes)(**values)
    return instance


class _Weights(Scheme):
    """What a weighted scheme does differently from the class that it is made of.

    Class attributes:
        inner: the scheme.
        centred, divided: the options.
    """

    inner: ClassVar[Scheme]
    centred: ClassVar[bool]
    divided: ClassVar[bool]

    def __reduce__(self) -> tuple[Any, ...]:
        return _weighted, (self.inner, "group" if self.centred else "none", self.divided)

    @property
    def checked_properties(self) -> frozenset[str]:
        """None, because what a scheme declares is about its own weights."""
        return frozenset()

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        return self._weigh(group, self.inner.assign(group))

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups, by the scheme as a whole."""
        return [self._weigh(group, c) for group, c in zip(groups, self.inner.assign_batch(groups), strict=True)]

    def _weigh(self, group: Group, credit: Credit) -> Credit:
        in_loss = credit.flat_advantages[credit.flat_loss_mask]
        shift = -float(in_loss.mean()) if self.centred and in_loss.size else 0.0
        scale = (len(group) + 2.0) / (float(outcome_scores(group, "score").sum()) + 1.0) if self.divided else 1.0
        terms = {name: scale * x for name, x in (credit.step_terms or {STEP: credit.flat_step_advantages}).items()}
        if shift:
            terms["centred over the group's turns"] = np.full(len(credit.flat_loss_mask), scale * shift)
        tokens = credit.token_advantages
        return replace(
            credit,
            outcome_advantages=scale * credit.outcome_advantages,
            flat_step_rewards=scale * credit.flat_step_rewards,
            flat_step_advantages=scale * (credit.flat_step_advantages + shift),
            token_advantages=None if tokens is None else tuple(scale * (x + shift) for x in tokens),
            step_terms=terms,
        )
