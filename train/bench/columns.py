"""The columns of the tables: every scheme with the settings it is compared under, and the controls.

A scheme that reads annotations is a column only together with what feeds it (see ``feeds``): ``pica[fitted]``,
``pica[exact]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from creditflow.envs.errors import ConfigError, unknown_name_error
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
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.grouptd import VARIANTS
from creditflow.wrappers.records.group import Group

__all__ = [
    "FEEDS",
    "NAMED",
    "ORACLES",
    "SchemeColumn",
    "fed_columns",
    "feedable",
    "make_columns",
    "plain_name",
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
        feed: what its annotations come from, one of ``FEEDS``; "" for a scheme that reads none.
    """

    scheme: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    step_only: bool = False
    feed: str = ""

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
        # its penalty grows by half each turn, for episodes of five; without a critic of its own rewards, the group is one
        "pica": SchemeColumn("pica", {"penalty": 0.0, "baseline": "group"}),
    }
)

# what annotations may come from
FEEDS: Mapping[str, str] = MappingProxyType(
    {
        "fitted": "reads means over earlier rollouts (8 groups more in the one-step metrics, none in learning)",
        "exact": "reads the exact V^π, which no method has",
    }
)
WRITTEN: Final = frozenset({"value.critic", "value.pica", "logp.answer", "logp.answer.mean", "judge.score"})
# how schemes are to be understood where no language model speaks
MEANT: Mapping[str, str] = MappingProxyType(
    {
        "tips": "success stands for the right answer",
        "igpo": "success stands for the right answer",
        "prm": "the judge marks the change of the probability of success",
        "ppo_gae": "one token a turn, which makes it mt_ppo",
    }
)


def scheme_columns(variants: bool) -> tuple[str, ...]:
    """Columns that are compared when nobody names any: every registered scheme, and the named variants if asked."""
    named = [name for name in NAMED if name != "leave_one_out"] if variants else []
    names = tuple(dict.fromkeys([*named, *credit.names()]))
    # with one token a turn ppo_gae is mt_ppo: only who names it gets it twice
    return tuple(name if name == "ppo_gae" else fed_columns([name])[0] for name in names) if variants else names


def feedable(name: str) -> bool:
    """Whether a column reads annotations, and all that it reads can be fed."""
    scheme = scheme_column(name).made(1, "state")
    read = {*scheme.needs, *scheme.requires_tokens}
    return bool(read) and read <= WRITTEN


def fed_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Names as a person writes them, each scheme that reads annotations fed by what can be learned."""
    return tuple(dict.fromkeys(f"{n}[fitted]" if "[" not in n and feedable(n) else n for n in names))


def plain_name(name: str) -> str:
    """The column that a control spoils; any other is itself.

    >>> plain_name("shuffled(pica[fitted])")
    'pica[fitted]'
    """
    for spoilt in ("shuffled(", "flipped("):
        if name.startswith(spoilt) and name.endswith(")"):
            return plain_name(name[len(spoilt) : -1])
    return name


def scheme_column(name: str) -> SchemeColumn:
    """A column by name: one of ``NAMED``, else the registered scheme as its paper has it; or either with its feed.

    Raises:
        ConfigError: neither; suggests the near name.
    """
    base, bracket, feed = name.partition("[")
    if bracket:
        if feed.removesuffix("]") not in FEEDS or not feed.endswith("]"):
            raise unknown_name_error("feed of a column", name, [f"{base}[{known}]" for known in FEEDS])
        if not feedable(base):
            raise ConfigError(f"column {name!r}: {base} reads no annotations that could be fed; write {base!r}")
        return replace(scheme_column(base), feed=feed.removesuffix("]"))
    if name in NAMED:
        return NAMED[name]
    if name in credit.names():
        return SchemeColumn(name)
    raise unknown_name_error("credit scheme", name, {*NAMED, *credit.names()})


def settings_of(names: Sequence[str]) -> dict[str, str]:
    """How columns differ from their paper's preset, in words; only those that do."""
    told = {}
    for name in names:
        column = scheme_column(name)
        parts = [f"{key.rstrip('_')}={value}" for key, value in column.parameters.items()]
        if column.step_only:
            parts.append("step part alone")
        said = [f"{column.scheme} with {', '.join(parts)}"] if parts else []
        if column.feed:
            said += [FEEDS[column.feed], *(MEANT[s] for s in (column.scheme,) if s in MEANT)]
        if said:
            told[name] = "; ".join(said)
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
    name = plain_name(name)
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
