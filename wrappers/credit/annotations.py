"""Numbers that annotators wrote into a group, as arrays; what is missing is named with the command that writes it.

A scheme that reads annotations stays a pure function of its group: models write numbers, schemes only read them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.records import Group

__all__ = ["WRITTEN_BY", "turn_values"]

# annotation (of the state before a turn; ".next" after it) -> the command that writes it
WRITTEN_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "value.pica": "creditflow annotate --with success:DIR IN.jsonl --out OUT.jsonl",
        "value.critic": "creditflow annotate --with critic:DIR IN.jsonl --out OUT.jsonl",
    }
)


def turn_values(group: Group, name: str) -> NDArray[np.float64]:
    """float64 (N,): an annotation of every turn.

    Raises:
        CreditError: a turn has no such number, or one that is not finite.
    """
    numbers = np.empty(len(group.turns))
    at = 0
    for member in group.trajectories:
        for t, turn in enumerate(member.turns):
            value = turn.values.get(name, math.nan)
            if not math.isfinite(value):
                raise _missing(f"turn {t} of trajectory {member.trajectory_id!r}", name, name in turn.values, value)
            numbers[at] = value
            at += 1
    return numbers


def _missing(where: str, name: str, there: bool, value: float) -> CreditError:
    problem = f"is {value!r}, expected a finite number" if there else "is missing"
    command = WRITTEN_BY.get(name.removesuffix(".next"), "creditflow annotate --with NAME IN.jsonl --out OUT.jsonl")
    return CreditError(f"{where}: the annotation {name!r} {problem}; write it with: {command}")
