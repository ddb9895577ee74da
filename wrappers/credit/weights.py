"""Weights between tasks, for every scheme: credit centred in each group, and divided by the group's success rate.

Schemes differ in how much credit a group gets in all: division by the deviation of few successes gives hard tasks large weights,
uncentred credit pushes all turns of a group up or down. Two schemes that are compared should have the same weights, and one may
choose them apart from the scheme: ``make(NAME, centre="group", divide_by_success=True)`` does so for any of them, and
so do ``--set`` and ``credit.parameters`` of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import STEP, Credit, Scheme
from creditflow.wrappers.credit.outcome import outcome_scores
from creditflow.wrappers.records.group import Group

__all__ = ["SHARED_OPTIONS", "weighted"]

SHARED_OPTIONS: Final = ("centre", "divide_by_success")


@dataclass(frozen=True, kw_only=True)
class _Weights(Scheme):
    """A scheme with other weights between groups.

    Attributes:
        centre: "group" subtracts from the credit of every turn the mean over the group's turns in the loss.
        divide_by_success: divide the credit of the group by ρ = (Σ_i R_i + 1) / (G + 2), with graded outcomes R_i in [0, 1].
    """

    inner: ClassVar[Scheme]

    centre: Literal["none", "group"] = "none"
    divide_by_success: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Those of the scheme."""
        return self.inner.needs

    @property
    def couples_groups(self) -> bool:
        """Whether the scheme's groups depend on each other."""
        return self.inner.couples_groups

    @property
    def checked_properties(self) -> frozenset[str]:
        """None: what a scheme declares holds for its own weights."""
        return frozenset()

    def undefined_on(self, group: Group) -> str:
        """As the scheme."""
        return self.inner.undefined_on(group)

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        return self._weigh(group, self.inner.assign(group))

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups, by the scheme as a whole."""
        return [self._weigh(group, c) for group, c in zip(groups, self.inner.assign_batch(groups), strict=True)]

    def _weigh(self, group: Group, credit: Credit) -> Credit:
        in_loss = credit.flat_advantages[credit.flat_loss_mask]
        shift = -float(in_loss.mean()) if self.centre == "group" and in_loss.size else 0.0
        scale = 1.0
        if self.divide_by_success:
            scale = (len(group) + 2.0) / (float(outcome_scores(group, "score").sum()) + 1.0)
        terms = {name: scale * x for name, x in (credit.step_terms or {STEP: credit.flat_step_advantages}).items()}
        if shift:
            terms["centred over the group's turns"] = np.full(len(credit.flat_loss_mask), scale * shift)
        return replace(
            credit,
            outcome_advantages=scale * credit.outcome_advantages,
            flat_step_rewards=scale * credit.flat_step_rewards,
            flat_step_advantages=scale * (credit.flat_step_advantages + shift),
            token_advantages=_changed(credit.token_advantages, scale, shift),
            step_terms=terms,
        )


def _changed(
    tokens: tuple[NDArray[np.float64], ...] | None, scale: float, shift: float
) -> tuple[NDArray[np.float64], ...] | None:
    return None if tokens is None else tuple(scale * (advantages + shift) for advantages in tokens)


def weighted(scheme: Scheme, **options: Any) -> Scheme:
    """The scheme with ``centre`` and ``divide_by_success``; itself where both have their defaults.

    The class of the result is made for this scheme, so that its name, source and needs are the scheme's own.

    Raises:
        ConfigError: an option has a value of another kind.
    """
    copied = ("name", "source", "requires", "requires_tokens", "task_fields", "texts", "credit_needs", "presets")
    namespace = {"inner": scheme, **{name: getattr(type(scheme), name) for name in copied}}
    wrapper = type(f"Weighted{type(scheme).__name__}", (_Weights,), namespace)(**options)
    unchanged = wrapper.centre == "none" and not wrapper.divide_by_success
    return scheme if unchanged else wrapper
