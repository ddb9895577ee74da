"""Annotations as arrays. A missing one is an error that gives the command which writes it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.records.group import Group

__all__ = ["WRITERS", "token_values", "turn_values"]

# annotation -> the annotator that writes it, as an argument of `creditflow annotate --with`
WRITERS: Mapping[str, str] = MappingProxyType(
    {
        "value.critic": "critic:DIR",
        "value.oracle": "oracle --env NAME",
        "distance.oracle": "oracle --env NAME",
        "logp.answer.mean": "likelihood:DIR",
        "judge.score": "judge:URL#MODEL",
        "fork.value": "forks:K --env NAME",
        "fork.q": "forks:K --env NAME",
        "value.pica": "success:DIR",
    }
)


def turn_values(group: Group, name: str, *, scheme: str) -> NDArray[np.float64]:
    """float64 (N,): an annotation of every turn.

    Raises:
        CreditError: a turn has no such annotation.
        TrajectoryError: an annotation is not a number.
    """
    numbers = group.annotation(name)
    missing = np.flatnonzero(np.isnan(numbers))
    if len(missing):
        owner = int(group.arrays.trajectory[missing[0]])
        turn = int(missing[0] - group.arrays.offsets[owner])
        raise _missing(group, owner, f"turn {turn}", name, scheme)
    return numbers


def token_values(group: Group, name: str, *, scheme: str) -> list[NDArray[np.float64]]:
    """G arrays float64 (L+1,): an annotation of every token and of the end ((1,) zeros without turns).

    Raises:
        CreditError: a trajectory with turns has no tokens, or its tokens have no such annotation.
    """
    out = []
    for i, trajectory in enumerate(group.trajectories):
        tokens = trajectory.tokens
        if tokens is None:
            if trajectory.turns:
                raise CreditError(
                    f"group {group.group_id!r}, trajectory {trajectory.trajectory_id!r} has no tokens: {scheme} assigns credit "
                    "to tokens, which only rollouts of a language model have; use a scheme that assigns credit to turns"
                )
            out.append(np.zeros(1))
        elif name not in tokens.values:
            raise _missing(group, i, "its tokens", name, scheme)
        else:
            out.append(tokens.values[name].astype(np.float64))
    return out


def _missing(group: Group, index: int, position: str, name: str, scheme: str) -> CreditError:
    writer = WRITERS.get(name.removesuffix(".next"))
    remedy = (
        f"write it with: creditflow annotate --with {writer} IN.jsonl --out OUT.jsonl"
        if writer
        else "no annotator of this package writes it: put it into the values of every turn"
    )
    return CreditError(
        f"{scheme} needs the annotation {name!r}, which group {group.group_id!r}, trajectory "
        f"{group.trajectories[index].trajectory_id!r}, {position} does not have; {remedy}"
    )
