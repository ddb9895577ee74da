"""Schemes made of other schemes: with other weights between groups, and sums.

Schemes differ in how much credit a group gets in all: division by the deviation of few successes gives hard tasks large weights,
uncentred credit pushes all turns of a group up or down. Two schemes that are compared should have the same weights, and one may
choose them apart from the scheme: ``make(NAME, centre="group", divide_by_success=True)`` does so for any of them, and
so do ``--set`` and ``credit.parameters`` of a run.

A sum is ``make("0.5*grpo + 0.5*gigpo")``, or ``Sum`` of schemes with parameters of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, reduce
from numbers import Real
from typing import Any, ClassVar, Final, Literal

import numpy as np

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.credit.base import STEP, Credit, CreditError, Scheme, check_parameter, is_sum
from creditflow.wrappers.credit.outcome import outcome_scores
from creditflow.wrappers.records.group import Group

__all__ = ["SHARED_OPTIONS", "Sum", "parsed_sum", "schemes_of", "weighted"]

SHARED_OPTIONS: Final = {"centre": Literal["none", "group"], "divide_by_success": bool}

PLUS: Final = re.compile(r"(?<!\d[eE])(?<!\.[eE])\+")  # not that of 1e+3
# what a sum has if all of its terms have it; telescoping and what compares one scheme's own terms is left out
LINEAR: Final = frozenset(
    {
        *("all_fail_zero", "batch_permutation", "branches", "homogeneous", "one_member_zero", "permutation", "scale"),
        *("shift", "stopping_time", "ties_zero"),
    }
)


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


def parsed_sum(text: str) -> list[tuple[float, str]]:
    """Weight and scheme's name of each term.

    >>> parsed_sum("0.5*grpo + 2*gigpo + rloo")
    [(0.5, 'grpo'), (2.0, 'gigpo'), (1.0, 'rloo')]

    Raises:
        ConfigError: a term is missing, is not WEIGHT*SCHEME or SCHEME, has no finite weight, or names a scheme a second time.
    """
    terms = list[tuple[float, str]]()
    for number, written in enumerate(PLUS.split(text), start=1):
        *weights, name = (piece.strip() for piece in written.split("*"))
        where = f"sum of schemes {short_repr(text)}, term {number}"
        if not written.strip():
            raise ConfigError(
                f"{where}: expected WEIGHT*SCHEME or SCHEME, got nothing. Write one plus sign between two terms"
            )
        if len(weights) > 1 or not name or not all(weights):
            raise ConfigError(
                f"{where}: expected WEIGHT*SCHEME or SCHEME, such as 0.5*grpo, got {short_repr(written.strip())}"
            )
        if name in [earlier for _, earlier in terms]:
            raise ConfigError(f"{where}: {name} is named a second time. Add its weights to one")
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            raise ConfigError(f"{where}: expected a number before *, got {short_repr(weights[0])}") from None
        terms.append((weight, name))
    return terms


@dataclass(frozen=True)
class Sum(Scheme):
    """A_t = Σ_k w_k A_t^k: the credit of a turn is the weighted sum of what several schemes give it.

    A turn that a scheme leaves out of the loss gets nothing from it, and is in the loss if any scheme has it there. The loss is
    averaged as all schemes say, or over all tokens where they differ. ``outcome_advantages`` are 0: each scheme is a step term
    of its own, so that an explanation shows every summand.

    >>> from creditflow.wrappers import credit
    >>> credit.Sum([(0.5, credit.make("grpo")), (0.5, credit.make("gigpo", discount=0.9))]).name
    '0.5*grpo + 0.5*gigpo'

    Args:
        terms: pairs of a finite weight and a scheme that gives numbers to turns.

    Raises:
        ConfigError: no terms, a weight that is not finite, or a scheme that credits tokens.
    """

    terms: Sequence[tuple[float, Scheme]] = ()

    name = "sum"  # of the class; an instance has that of its terms
    verification = "the sum of its terms, which are checked on their own"
    limitations = "Schemes of different scale have different weight, whatever their factors are."

    def __post_init__(self) -> None:
        """Check the terms, and take over what they need."""
        terms = tuple(self.terms)
        if not terms:
            raise ConfigError("a sum of schemes needs at least one term, such as (0.5, make('grpo'))")
        for term in terms:
            _check_term(term)
        of_instance = {
            "terms": terms,
            "name": " + ".join(_label(weight, scheme.name) for weight, scheme in terms),
            "source": "; ".join(f"{scheme.name}: {scheme.source}" for _, scheme in terms),
            "task_fields": tuple(dict.fromkeys(name for _, scheme in terms for name in scheme.task_fields)),
            "texts": tuple(dict.fromkeys(name for _, scheme in terms for name in scheme.texts)),
        }
        for name, value in of_instance.items():
            object.__setattr__(self, name, value)

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The schemes of the terms."""
        return tuple(scheme for _, scheme in self.terms)

    @property
    def needs(self) -> tuple[str, ...]:
        """Annotations of turns that any term reads."""
        return tuple(dict.fromkeys(name for scheme in self.schemes for name in scheme.needs))

    @property
    def search_fields(self) -> tuple[str, ...]:
        """Fields of search turns that any term reads."""
        return tuple(dict.fromkeys(name for scheme in self.schemes for name in scheme.search_fields))

    @property
    def couples_groups(self) -> bool:
        """Whether any term couples the groups of a batch."""
        return any(scheme.couples_groups for scheme in self.schemes)

    @property
    def checked_properties(self) -> frozenset[str]:
        """Properties that all terms have, and that sums keep."""
        return LINEAR.intersection(*(scheme.checked_properties for scheme in self.schemes))

    def undefined_on(self, group: Group) -> str:
        """Return why a term cannot score a group, or "" if all can."""
        reasons = {scheme.name: scheme.undefined_on(group) for scheme in self.schemes}
        return next((f"its term {name}: {reason}" for name, reason in reasons.items() if reason), "")

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        return self._added(group, [scheme.assign(group) for scheme in self.schemes])

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups, each term together where it couples them."""
        by_term = [scheme.assign_batch(groups) for scheme in self.schemes]
        return [self._added(group, [credits_[i] for credits_ in by_term]) for i, group in enumerate(groups)]

    def _added(self, group: Group, credits_: Sequence[Credit]) -> Credit:
        if any(credit.token_advantages is not None for credit in credits_):
            raise CreditError(f"scheme {self.name!r}: a term credits tokens, and a sum adds numbers of turns")
        targets = [credit.value_targets for credit in credits_ if credit.value_targets is not None]
        if len(targets) > 1:
            raise CreditError(
                f"scheme {self.name!r}: {len(targets)} terms train the critic; a sum may have one of these"
            )
        steps, rewards = dict[str, np.ndarray](), []
        for number, ((weight, scheme), credit) in enumerate(zip(self.terms, credits_, strict=True), start=1):
            label = _label(weight, scheme.name)
            label = f"{label} (term {number})" if label in steps else label
            with np.errstate(over="ignore"):
                steps[label] = weight * np.where(credit.flat_loss_mask, credit.flat_advantages, 0.0)
                rewards.append(weight * credit.flat_step_rewards)
        averages = {credit.aggregation for credit in credits_}
        with np.errstate(over="ignore", invalid="ignore"):  # ``of`` rejects numbers that are not finite
            return Credit.of(
                group,
                step=steps,
                rewards=reduce(np.add, rewards),
                loss_mask=reduce(np.logical_or, [credit.flat_loss_mask for credit in credits_]),
                aggregation=averages.pop() if len(averages) == 1 else "token_mean",
                value_targets=targets[0] if targets else None,
            )


def schemes_of(scheme: Scheme) -> tuple[Scheme, ...]:
    """The schemes of a sum, or the scheme itself."""
    return scheme.schemes if isinstance(scheme, Sum) else (scheme,)


def _check_term(term: Any) -> None:
    """Raise ConfigError unless a term is a finite weight and a scheme that gives numbers to turns."""
    if not isinstance(term, tuple) or len(term) != 2 or not isinstance(term[1], Scheme):
        raise ConfigError(
            f"a term of a sum must be (weight, scheme), such as (0.5, make('grpo')), got {short_repr(term)}"
        )
    weight, scheme = term
    if isinstance(weight, bool) or not isinstance(weight, Real) or not math.isfinite(weight):
        raise ConfigError(f"the weight of {scheme.name} in a sum must be a finite number, got {short_repr(weight)}")
    if scheme.requires_tokens:
        raise ConfigError(f"{scheme.name} credits tokens, and a sum adds numbers of turns: use it alone")


def _label(weight: float, name: str) -> str:
    """``0.5*grpo``; a weight of 1 is not written, and a sum within a sum stands in parentheses."""
    factor = repr(float(weight)).removesuffix(".0")
    return name if factor == "1" else f"{factor}*{f'({name})' if is_sum(name) else name}"
