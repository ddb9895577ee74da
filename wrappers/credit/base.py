"""The interface of a credit scheme: frozen parameters and a pure function from a group to one number per turn.

A custom scheme is a dataclass that derives from ``Scheme``, names its presets, and defines ``assign``:

>>> from dataclasses import dataclass
>>> from creditflow.wrappers.credit import Credit, Scheme, check_credit
>>> @dataclass(frozen=True, kw_only=True)
... class LastTurn(Scheme):
...     name = "last_turn"
...     bonus: float = 1.0
...     def assign(self, group):
...         arrays = group.arrays
...         step = self.bonus * (arrays.last & arrays.success[arrays.trajectory])
...         return Credit.of(group, step=step.astype(float))
>>> check_credit(LastTurn()).holds("permutation")
True
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import cached_property, reduce, wraps
from numbers import Real
from typing import Any, ClassVar, Final, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, CreditflowError, short_repr, unknown_name_error
from creditflow.wrappers.records.group import Group, split_flat

__all__ = [
    "RECORDER",
    "STEP",
    "Aggregation",
    "Credit",
    "CreditError",
    "Recording",
    "Scheme",
    "SchemeContractError",
    "Semantics",
    "Statistics",
    "ValueTargets",
    "is_sum",
]

Semantics = Literal["paper", "release"]
# loss aggregation: the mean over all tokens; over the tokens of each group, then over groups; over those of each
# trajectory, then over trajectories; over those of each turn, then over turns, then over trajectories
Aggregation = Literal["token_mean", "group_token_mean", "trajectory_mean", "turn_mean"]


STEP: Final = "step advantage"  # the term of a scheme that names none
_PER_TURN: Final = ("flat_step_rewards", "flat_step_advantages", "flat_loss_mask")


class CreditError(CreditflowError, ValueError):
    """Raised for a group that a scheme cannot score: a number is not finite, or an annotation is missing."""


class SchemeContractError(ConfigError, AssertionError):
    """Raised for a scheme that breaks the contract of all schemes, or does not have a property that it declares."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What ``normalize`` computed in one call, for ``explain``, with M entries in K groups.

    Attributes:
        quantity: what the entries are, in words.
        x: float64 (M,), the entries.
        labels: int (M,), the group of each.
        sample: bool (M,), the entries that mean and deviation are computed from.
        mean, deviation: float64 (K,), of each group.
        divisor: float64 (M,), what each difference to the mean was divided by.
        result: float64 (M,).
        rows: int (M,), the turn (of N) of each entry, or −1 − i for trajectory i.
    """

    quantity: str
    x: NDArray[np.float64]
    labels: NDArray[np.integer[Any]]
    sample: NDArray[np.bool_]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    divisor: NDArray[np.float64]
    result: NDArray[np.float64]
    rows: NDArray[np.integer[Any]]


class Recording:
    """Collects what ``normalize`` computes, by the group whose credit is built next."""

    def __init__(self) -> None:
        self._open: list[Statistics] = []
        self._of_group: dict[int, list[Statistics]] = {}

    def add(self, statistics: Statistics) -> None:
        """Record one call."""
        self._open.append(statistics)

    def close(self, group: Group) -> None:
        """What was recorded since the last call belongs to a group; a scheme made of others builds several credits of it."""
        self._of_group.setdefault(id(group), []).extend(self._open)
        self._open = []

    def of(self, group: Group) -> list[Statistics]:
        """What was recorded of a group."""
        return self._of_group.get(id(group), [])


RECORDER: Final[ContextVar[Recording | None]] = ContextVar("recorder", default=None)  # set while ``explain`` runs


@dataclass(frozen=True, eq=False)
class ValueTargets:
    """Value targets for the critic, with the old values that the advantages were computed from.

    Attributes:
        name: annotation that the critic learns to predict, such as "value.critic".
        level: "turn" for one value for the state before each turn, "token" for one for the history before each model
            token.
        targets: G arrays float64, (T_i,) or (n_i,).
        values: old values, in the shapes of ``targets``.
    """

    name: str
    level: Literal["turn", "token"]
    targets: tuple[NDArray[np.float64], ...]
    values: tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, eq=False)
class Credit:
    """The credit of a group: G trajectories with T_i turns each, N turns in all.

    Attributes:
        outcome_advantages: float64 (G,), one number per trajectory.
        flat_step_rewards: float64 (N,), the step rewards before normalisation (zeros if the scheme has none).
        flat_step_advantages: float64 (N,), the weighted step advantage.
        flat_loss_mask: bool (N,), False for turns that count in the group's statistics but not in the loss.
        offsets: int64 (G+1,). Trajectory i is ``offsets[i]:offsets[i+1]`` of the flat arrays.
        aggregation: loss aggregation of the paper (or of its code).
        diagnostics: named numbers and arrays for tables and plots. No result depends on them. "node_numbers" names the arrays that
            have an entry for each key in "node_keys"; other arrays of length N have one for each turn.
        token_advantages: G arrays float64 (n_i,) over each trajectory's model tokens, for schemes that assign credit to
            tokens. The loss uses them instead of the advantages of turns, which are then the means over their tokens.
        value_targets: targets for the critic, if the scheme has one.
        step_terms: named float64 (N,) that add up to ``flat_step_advantages``, each with its sign and weight.
    """

    outcome_advantages: NDArray[np.float64]
    flat_step_rewards: NDArray[np.float64]
    flat_step_advantages: NDArray[np.float64]
    flat_loss_mask: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    aggregation: Aggregation = "token_mean"
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    token_advantages: tuple[NDArray[np.float64], ...] | None = None
    value_targets: ValueTargets | None = None
    step_terms: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        group: Group,
        *,
        outcome: NDArray[np.float64] | None = None,
        step: NDArray[np.float64] | Mapping[str, NDArray[np.float64]] | None = None,
        rewards: NDArray[np.float64] | None = None,
        loss_mask: NDArray[np.bool_] | None = None,
        aggregation: Aggregation = "token_mean",
        diagnostics: Mapping[str, Any] | None = None,
        token_advantages: tuple[NDArray[np.float64], ...] | None = None,
        value_targets: ValueTargets | None = None,
    ) -> Credit:
        """Build the credit of ``group`` from flat arrays. What is omitted is zero (the loss mask is all True).

        Args:
            group: the group.
            outcome: outcome advantages (G,).
            step: step advantages (N,), or the terms whose sum they are, by name. ``explain`` shows these.
            rewards: step rewards (N,).
            loss_mask, aggregation, diagnostics, token_advantages, value_targets: as the attributes.

        Raises:
            CreditError: a number is not finite.
            SchemeContractError: an array has another shape or type.
        """
        n = int(group.arrays.offsets[-1])
        terms = step if isinstance(step, Mapping) else {}
        if terms:
            step = reduce(np.add, terms.values())
        credit = cls(
            outcome_advantages=np.asarray(np.zeros(len(group)) if outcome is None else outcome, np.float64),
            flat_step_rewards=np.zeros(n) if rewards is None else np.asarray(rewards, np.float64),
            flat_step_advantages=np.asarray(np.zeros(n) if step is None else step, np.float64),
            flat_loss_mask=np.ones(n, np.bool_) if loss_mask is None else loss_mask,
            offsets=group.arrays.offsets,
            aggregation=aggregation,
            diagnostics=diagnostics or {},
            token_advantages=token_advantages,
            value_targets=value_targets,
            step_terms=terms,
        )
        credit.check(group)
        if (recorder := RECORDER.get()) is not None:
            recorder.close(group)
        return credit

    def check(self, group: Group) -> None:
        """Check types, shapes and numbers of the credit of ``group``.

        Raises:
            CreditError: a number is not finite.
            SchemeContractError: an array has another shape or type, or the loss aggregation is unknown.
        """
        n = int(group.arrays.offsets[-1])
        rows = f"group {group.group_id!r}: "
        if self.aggregation not in get_args(Aggregation):
            error = unknown_name_error("loss aggregation", str(self.aggregation), get_args(Aggregation))
            raise SchemeContractError(f"{rows}{error}")
        for name, size in (("outcome_advantages", len(group)), *((name, n) for name in _PER_TURN)):
            array, kind = getattr(self, name), np.bool_ if name == "flat_loss_mask" else np.float64
            if not isinstance(array, np.ndarray) or array.dtype != kind:
                came = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
                raise SchemeContractError(
                    f"{rows}{name} must be {kind.__name__.rstrip('_')} in a NumPy array, got {came}"
                )
            if array.shape != (size,):
                raise SchemeContractError(f"{rows}{name} must have shape ({size},), got {array.shape}")
        if not np.array_equal(self.offsets, group.arrays.offsets):
            raise SchemeContractError(f"{rows}offsets must be those of group.arrays")
        for name in ("outcome_advantages", "flat_step_rewards", "flat_step_advantages", "flat_advantages"):
            if not np.isfinite(getattr(self, name)).all():
                raise CreditError(f"{rows}{name} must be finite; are rewards or annotations huge?")
        targets = () if self.value_targets is None else (self.value_targets.targets, self.value_targets.values)
        for arrays in (*targets, *([] if self.token_advantages is None else [self.token_advantages])):
            if len(arrays) != len(group) or not all(np.isfinite(array).all() for array in arrays):
                raise CreditError(
                    f"{rows}advantages of tokens, value targets and old values must be finite, in one array for each trajectory"
                )

    def _split(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        return split_flat(flat, self.offsets)

    @cached_property
    def flat_advantages(self) -> NDArray[np.float64]:
        """float64 (N,): outcome advantage plus step advantage."""
        with np.errstate(over="ignore", invalid="ignore"):  # ``of`` rejects non-finite arrays by name
            return np.repeat(self.outcome_advantages, np.diff(self.offsets)) + self.flat_step_advantages

    @property
    def step_rewards(self) -> list[NDArray[np.float64]]:
        """G arrays (T_i,): the step rewards before normalisation."""
        return self._split(self.flat_step_rewards)

    @property
    def step_advantages(self) -> list[NDArray[np.float64]]:
        """G arrays (T_i,): the weighted step advantages."""
        return self._split(self.flat_step_advantages)

    @property
    def advantages(self) -> list[NDArray[np.float64]]:
        """G arrays (T_i,): the factor of the importance ratio of every token of the turn."""
        return self._split(self.flat_advantages)

    @property
    def loss_mask(self) -> list[NDArray[np.bool_]]:
        """G arrays (T_i,): whether the turn is in the loss."""
        return self._split(self.flat_loss_mask)


@dataclass(frozen=True, kw_only=True)
class Scheme(ABC):
    """A credit scheme: frozen parameters and one pure function.

    Attributes:
        name: name in the registry.
        source: paper with sections and equations, and the released code that "release" follows.
        verification: what the formula was checked against, in a few words.
        limitations: when the scheme fails, in a few sentences. Its reference card adds what follows from its
            properties.
        presets: parameter values of each semantics. Other fields keep their defaults.
        ranges: intervals of numeric parameters, such as "[0, 1)" or "(0, inf)". Those of base classes count too.
        requires: annotations of turns that the default parameters read. ``needs`` lists those of this instance.
        requires_tokens: annotations of tokens that the scheme reads.
        task_fields: fields of the task payload that it reads.
        texts: long texts of a turn that it reads, out of "observation", "thought" and "response".
        credit_needs: what a group must have so that most turns get credit, or "" if that is more than one of these. The
            audit of a log mentions it if the scheme gives little credit.
        properties: properties of the paper preset. ``checked_properties`` lists those of this instance.
    """

    name: ClassVar[str]
    source: ClassVar[str] = ""
    verification: ClassVar[str] = ""
    limitations: ClassVar[str] = ""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}}
    ranges: ClassVar[Mapping[str, str]] = {}
    requires: ClassVar[tuple[str, ...]] = ()
    requires_tokens: ClassVar[tuple[str, ...]] = ()
    task_fields: ClassVar[tuple[str, ...]] = ()
    texts: ClassVar[tuple[str, ...]] = ()
    credit_needs: ClassVar[Literal["", "unequal outcomes", "repeated states", "a success"]] = ""
    properties: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **settings: Any) -> None:
        """Check what ``assign`` and ``assign_batch`` return wherever they are called, as a scheme may come from a plug-in."""
        super().__init_subclass__(**settings)
        for name in ("assign", "assign_batch"):
            function = vars(cls).get(name)
            if function is not None and not getattr(function, "__isabstractmethod__", False):
                setattr(cls, name, _checked(function))

    def __post_init__(self) -> None:
        """Check every parameter against its annotation and its range."""
        hints, ranges = get_type_hints(type(self)), self.all_ranges()
        for f in fields(self):
            check_parameter(self.name, f.name, getattr(self, f.name), hints[f.name], ranges.get(f.name, ""))

    @property
    def needs(self) -> tuple[str, ...]:
        """Annotations of turns that the scheme reads with these parameters."""
        return self.requires

    @property
    def search_fields(self) -> tuple[str, ...]:
        """Fields of search turns that the scheme reads with these parameters, out of "entities", "queries" and "doc_ids"."""
        return ()

    @property
    def couples_groups(self) -> bool:
        """Whether the credit of a group depends on the other groups of its batch, so that a batch is scored as a whole.

        True of a scheme that overrides ``assign_batch``, unless it overrides this too.
        """
        return type(self).assign_batch is not Scheme.assign_batch

    @property
    def checked_properties(self) -> frozenset[str]:
        """Properties that ``check_credit`` requires of this instance.

        All declared properties as long as every parameter except discounts and positive weights has the paper's value,
        else none.
        """
        paper = self.preset("paper")
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        unchanged = all(
            value == paper[name] or name.endswith(("discount", "_reward")) or (name.endswith("weight") and value > 0.0)
            for name, value in values.items()
        )
        return self.properties if unchanged else frozenset()

    def undefined_on(self, group: Group) -> str:
        """Return why the scheme cannot score a group, or "" if it can.

        ``assign`` raises a ``CreditError`` with this reason, and the benchmark skips the scheme and reports it.
        """
        missing = [name for name in self.task_fields if name not in group.task]
        if missing:
            return f"the task lacks {', '.join(map(repr, missing))}"
        first = next(iter(group.turns), None)
        absent = [name for name in self.needs if first is not None and name not in first.values]
        return f"its turns have no annotation {', '.join(map(repr, absent))}" if absent else ""

    @abstractmethod
    def assign(self, group: Group) -> Credit:
        """Score one group. Pure: equal groups get equal credit, and there are no side effects."""

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score many groups. Overridden only if the groups of a batch depend on each other."""
        return [self.assign(group) for group in groups]

    @classmethod
    def all_ranges(cls) -> dict[str, str]:
        """The ranges of the class and of its bases, by parameter."""
        of_classes = [vars(kind).get("ranges", {}) for kind in reversed(cls.__mro__)]
        return {name: interval for ranges in of_classes for name, interval in ranges.items()}

    @classmethod
    def preset(cls, semantics: str) -> dict[str, Any]:
        """Return all parameters of a preset.

        Raises:
            ConfigError: the scheme has no such semantics.
        """
        if semantics not in cls.presets:
            raise unknown_name_error(f"semantics of {cls.name}", str(semantics), cls.presets)
        return {f.name: f.default for f in fields(cls)} | dict(cls.presets[semantics])


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """``assign`` or ``assign_batch`` whose result is checked, with errors that name the scheme."""
    method = function.__name__

    @wraps(function)
    def checked(self: Scheme, scored: Any) -> Any:
        try:
            result = function(self, scored)
        except SystemExit as error:
            raise SchemeContractError(
                f"scheme {self.name!r}: {method} ended the program, by sys.exit({error.code!r}); raise an error instead"
            ) from error
        except (CreditError, SchemeContractError) as error:  # of ``Credit.of``, which does not know the scheme
            if str(error).startswith("group "):
                raise type(error)(f"scheme {self.name!r}, {error}") from error
            raise
        if method == "assign":
            _check_credit(self, scored, result)
            return result
        if not isinstance(result, list) or len(result) != len(scored):
            came = len(result) if isinstance(result, list) else type(result).__name__
            raise SchemeContractError(
                f"scheme {self.name!r}: assign_batch must return one Credit per group, in order, in a list: expected "
                f"{len(scored)}, got {came}"
            )
        try:
            for group, credit in zip(scored, result, strict=True):
                _check_credit(self, group, credit)
        except SchemeContractError as error:
            raise SchemeContractError(f"{error} (assign_batch must return one Credit per group, in order)") from error
        return result

    return checked


def _check_credit(scheme: Scheme, group: Group, credit: Any) -> None:
    if not isinstance(credit, Credit):
        raise SchemeContractError(f"scheme {scheme.name!r}: assign must return Credit, got {type(credit).__name__}")
    try:
        credit.check(group)
    except SchemeContractError as error:
        raise SchemeContractError(f"scheme {scheme.name!r}, {error}") from error
    except CreditError as error:
        raise CreditError(f"scheme {scheme.name!r}, {error}") from error


def is_sum(name: str) -> bool:
    """Whether a name of a scheme is a sum, or a scheme with a weight."""
    return "+" in name or "*" in name


def check_parameter(scheme: str, name: str, value: Any, hint: Any, interval: str = "") -> None:
    """Raise ConfigError unless ``value`` fits the annotation ``hint`` (float, int, bool, str or a Literal) and its interval."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise unknown_name_error(f"value of {scheme}.{name}", str(value), map(str, choices))
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ConfigError(f"{scheme}.{name} must be a finite number, got {short_repr(value)}")
    elif hint in (int, bool, str) and type(value) is not hint:
        raise ConfigError(f"{scheme}.{name} must be {hint.__name__}, got {short_repr(value)}")
    if interval and not _contains(interval, value):
        raise ConfigError(f"{scheme}.{name} must lie in {interval}, got {short_repr(value)}")


def _contains(interval: str, value: float) -> bool:
    """Whether a number lies in an interval.

    >>> [_contains("[0, 1)", x) for x in (0, 0.5, 1.0)]
    [True, True, False]
    """
    low, high = map(float, interval[1:-1].split(","))
    above = low < value if interval[0] == "(" else low <= value
    below = value < high if interval[-1] == ")" else value <= high
    return above and below
