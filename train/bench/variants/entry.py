"""A scheme with the settings under which it is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from creditflow.train.bench.controls import CreditFunction
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import option_names
from creditflow.wrappers.records.group import Group

__all__ = ["BatchCreditFunction", "SchemeEntry"]

BatchCreditFunction = Callable[[Sequence[Group]], list[credit.Credit]]


@dataclass(frozen=True, slots=True)
class SchemeEntry:
    """A scheme with the settings under which it is compared.

    Attributes:
        scheme: registry name, or a sum of them.
        parameters: options that differ from the paper's preset.
        step_only: whether the outcome advantage is left out.
        annotation_source: one of ``ANNOTATION_SOURCES``; "" for a scheme that reads no annotations.
    """

    scheme: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    step_only: bool = False
    annotation_source: str = ""

    def scheme_for(self, horizon: int, key: Literal["state", "text"]) -> credit.Scheme:
        """The scheme for tasks with this turn limit, comparing states by this key."""
        names = option_names(self.scheme)
        values = dict(self.parameters)
        if "key" in names:
            values["key"] = key
        if "horizon" in names:
            values.setdefault("horizon", horizon)
        return credit.make(self.scheme, **values)

    def bind(self, horizon: int, key: Literal["state", "text"]) -> CreditFunction:
        """The credit function for tasks with this turn limit, comparing states by this key."""
        scheme = self.scheme_for(horizon, key)
        return (lambda group: _step_part(group, scheme.assign(group))) if self.step_only else scheme.assign

    def bind_batch(self, horizon: int, key: Literal["state", "text"]) -> BatchCreditFunction:
        """The credit function for all groups of one update, which a scheme may normalise together."""
        scheme = self.scheme_for(horizon, key)
        if not self.step_only:
            return scheme.assign_batch
        return lambda groups: list(map(_step_part, groups, scheme.assign_batch(groups)))


def _step_part(group: Group, full: credit.Credit) -> credit.Credit:
    """The credit without its outcome advantage."""
    return credit.Credit.of(
        group,
        outcome=np.zeros(group.arrays.size),
        step=full.flat_step_advantages,
        loss_mask=full.flat_loss_mask,
        aggregation=full.aggregation,
    )
