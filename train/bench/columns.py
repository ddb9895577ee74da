"""The columns of the tables: every scheme with the settings it is compared under, and the controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from creditflow.envs.errors import unknown_name
from creditflow.train.bench.controls import (
    Column,
    Judge,
    flipped,
    oracle_adv,
    oracle_progress,
    recorded_progress,
    shuffled,
)
from creditflow.wrappers import credit
from creditflow.wrappers.credit.grouptd import VARIANTS
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.groups import Group

__all__ = [
    "NAMED",
    "SchemeColumn",
    "make_columns",
    "played_column",
    "reads_texts",
    "scheme_column",
    "scheme_columns",
    "settings_of",
]


@dataclass(frozen=True, slots=True)
class SchemeColumn:
    """A scheme as a column.

    Attributes:
        scheme: registry name.
        parameters: options that differ from the paper's preset.
        step_only: leave the outcome part out.
    """

    scheme: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    step_only: bool = False

    def made(self, horizon: int, key: Literal["state", "text"]) -> credit.Scheme:
        """The scheme for tasks with this turn limit, comparing states by this key."""
        known = {f.name for f in fields(lookup(self.scheme))}
        given = dict(self.parameters)
        if "key" in known:
            given["key"] = key
        if "horizon" in known:
            given.setdefault("horizon", horizon)
        return credit.make(self.scheme, **given)

    def bind(self, horizon: int, key: Literal["state", "text"]) -> Column:
        """The column for tasks with this turn limit, comparing states by this key."""
        scheme = self.made(horizon, key)
        if not self.step_only:
            return scheme.assign

        def assign(group: Group) -> credit.Credit:
            whole = scheme.assign(group)
            return credit.Credit.of(
                group,
                outcome=np.zeros(group.arrays.size),
                step=whole.flat_step_advantages,
                loss_mask=whole.flat_loss_mask,
            )

        return assign


NAMED: Mapping[str, SchemeColumn] = MappingProxyType(
    {
        "grpo": SchemeColumn("grpo"),
        "rloo": SchemeColumn("rloo"),
        "gigpo": SchemeColumn("gigpo"),
        "gigpo_mean": SchemeColumn("gigpo", {"step_scale": "none"}, step_only=True),
        "graphgpo": SchemeColumn("graphgpo", {"distance_discount": 0.8}),
        "graphgpo_paper": SchemeColumn("graphgpo"),
        "rewardflow": SchemeColumn("rewardflow"),
        "rewardflow_raw": SchemeColumn("rewardflow", {"step_scale": "none", "trajectory_weight": 0.0}),
        **{name: SchemeColumn("grouptd", given) for name, given in VARIANTS.items()},
        "grouptd_free": SchemeColumn("grouptd", {"horizon": 0}),
    }
)


def scheme_columns(variants: bool) -> tuple[str, ...]:
    """Columns that are compared when nobody names any: every registered scheme, and the named variants if asked."""
    named = [name for name in NAMED if name != "leave_one_out"] if variants else []
    return tuple(dict.fromkeys([*named, *credit.names()]))


def scheme_column(name: str) -> SchemeColumn:
    """A column by name: one of ``NAMED``, else the registered scheme as its paper has it.

    Raises:
        ConfigError: neither; suggests the near name.
    """
    if name in NAMED:
        return NAMED[name]
    if name in credit.names():
        return SchemeColumn(name)
    raise unknown_name("credit scheme", name, {*NAMED, *credit.names()})


def settings_of(names: Sequence[str]) -> dict[str, str]:
    """How columns differ from their paper's preset, in words; only those that do."""
    told = {}
    for name in names:
        column = scheme_column(name)
        parts = [f"{key.rstrip('_')}={value}" for key, value in column.parameters.items()]
        if column.step_only:
            parts.append("step part alone")
        if parts:
            told[name] = f"{column.scheme} with {', '.join(parts)}"
    return told


def make_columns(
    names: Sequence[str], judge: Judge, rng: np.random.Generator, *, key: Literal["state", "text"] = "state"
) -> dict[str, Column]:
    """Columns by name.

    Args:
        names: of schemes, of oracles, or ``shuffled(X)`` or ``flipped(X)`` of one.
        judge: of the policy that made the rollouts.
        rng: of the shuffling.
        key: what schemes take for equal states.

    Raises:
        ConfigError: an unknown name.
    """

    def plain(name: str) -> Column:
        oracle = ORACLES.get(name)
        return oracle(judge) if oracle else _bound(name, judge.mdp.horizon, key)

    return {name: _with_spoilt(name, plain, rng) for name in names}


def played_column(name: str, horizon: int, rng: np.random.Generator) -> Column:
    """A column on rollouts that an environment recorded: exact advantages are unknown, distances are in the log.

    Args:
        name: of a scheme, ``oracle_progress``, or ``shuffled(X)`` or ``flipped(X)`` of one.
        horizon: the turn limit.
        rng: of the shuffling.
    """

    def plain(name: str) -> Column:
        return recorded_progress if name == "oracle_progress" else _bound(name, horizon, "state")

    return _with_spoilt(name, plain, rng)


def reads_texts(name: str, horizon: int) -> bool:
    """Whether a column, or what it spoils, reads texts of turns: then rollouts have to keep them."""
    for spoilt in ("shuffled(", "flipped("):
        if name.startswith(spoilt):
            return reads_texts(name[len(spoilt) : -1], horizon)
    return name not in ORACLES and bool(scheme_column(name).made(horizon, "state").texts)


ORACLES: Mapping[str, Callable[[Judge], Column]] = MappingProxyType(
    {"oracle_adv": oracle_adv, "oracle_progress": oracle_progress}
)


def _with_spoilt(name: str, plain: Callable[[str], Column], rng: np.random.Generator) -> Column:
    if name.startswith("shuffled(") and name.endswith(")"):
        return shuffled(_with_spoilt(name[9:-1], plain, rng), rng)
    if name.startswith("flipped(") and name.endswith(")"):
        return flipped(_with_spoilt(name[8:-1], plain, rng))
    return plain(name)


@lru_cache(maxsize=256)
def _bound(name: str, horizon: int, key: Literal["state", "text"]) -> Column:
    """Schemes are checked when they are made; a learning curve would make thousands."""
    return scheme_column(name).bind(horizon, key)
