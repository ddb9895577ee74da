"""The columns of the study's tables: every scheme with the settings it is compared under, and the controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from creditflow.envs.errors import unknown_name
from creditflow.train.bench.controls import Column, Judge, flipped, oracle_adv, oracle_progress, shuffled
from creditflow.wrappers import credit
from creditflow.wrappers.credit.grouptd import VARIANTS
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.groups import Group

__all__ = ["CONTROLS", "CURVE_COLUMNS", "OFFLINE_COLUMNS", "SCHEMES", "SchemeColumn", "make_columns"]


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

    def bind(self, horizon: int, key: Literal["state", "text"]) -> Column:
        """The column for tasks with this turn limit, comparing states by this key."""
        known = {f.name for f in fields(lookup(self.scheme))}
        given = dict(self.parameters)
        if "key" in known:
            given["key"] = key
        if "horizon" in known:
            given.setdefault("horizon", horizon)
        scheme = credit.make(self.scheme, **given)
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


SCHEMES: Mapping[str, SchemeColumn] = MappingProxyType(
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
CONTROLS = (
    "oracle_adv",
    "oracle_progress",
    "shuffled(oracle_adv)",
    "flipped(oracle_adv)",
    "shuffled(grouptd)",
    "shuffled(graphgpo)",
)
OFFLINE_COLUMNS = (*(name for name in SCHEMES if name != "leave_one_out"), *CONTROLS)
CURVE_COLUMNS = (
    "grpo",
    "gigpo",
    "gigpo_mean",
    "graphgpo",
    "rewardflow_raw",
    "evaluation",
    "grouptd",
    "grouptd_8",
    "grouptd_det",
    "grouptd_outcome",
    "oracle_adv",
    "oracle_progress",
    "shuffled(grouptd)",
)


def make_columns(
    names: Sequence[str], judge: Judge, rng: np.random.Generator, *, key: Literal["state", "text"] = "state"
) -> dict[str, Column]:
    """Columns by name: a key of ``SCHEMES``, an oracle, or ``shuffled(X)`` or ``flipped(X)`` of one.

    Args:
        names: in order.
        judge: of the policy that made the rollouts.
        rng: of the shuffling.
        key: what schemes take for equal states.

    Raises:
        ConfigError: an unknown name.
    """

    def make(name: str) -> Column:
        if name in SCHEMES:
            return _bound(name, judge.mdp.horizon, key)
        if name == "oracle_adv":
            return oracle_adv(judge)
        if name == "oracle_progress":
            return oracle_progress(judge)
        if name.startswith("shuffled(") and name.endswith(")"):
            return shuffled(make(name[9:-1]), rng)
        if name.startswith("flipped(") and name.endswith(")"):
            return flipped(make(name[8:-1]))
        raise unknown_name("column", name, [*SCHEMES, "oracle_adv", "oracle_progress", "shuffled(X)", "flipped(X)"])

    return {name: make(name) for name in names}


@lru_cache(maxsize=256)
def _bound(name: str, horizon: int, key: Literal["state", "text"]) -> Column:
    """Schemes are checked when they are made; a learning curve would make thousands."""
    return SCHEMES[name].bind(horizon, key)
