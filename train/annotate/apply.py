"""Write the values of an annotator, after checks, into trajectories, with their provenance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from creditflow.train.annotate.base import AnnotationError, Annotations, Annotator
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["annotate"]


def annotate(groups: Sequence[Group], annotator: Annotator, *, overwrite: bool = False) -> list[Group]:
    """The groups with the values of an annotator added.

    Args:
        groups: the groups of one batch.
        annotator: the annotator.
        overwrite: replace existing values of the same names, which are an error otherwise.

    Raises:
        AnnotationError: values of these names exist and not ``overwrite``; the number, names or shapes of the returned values
            are wrong, or a value is not finite.
    """
    names = (*annotator.turn_names, *annotator.trajectory_names, *annotator.token_names)
    if not overwrite:
        _require_absent(groups, names)
    annotations = annotator.annotate(groups)
    total = sum(map(len, groups))
    if len(annotations) != total:
        raise AnnotationError(
            f"{annotator.provenance.annotator} returned values for {len(annotations)} trajectories, expected {total}"
        )
    remaining = iter(annotations)
    return [replace(group, trajectories=tuple(_members(group, remaining, annotator))) for group in groups]


def _members(group: Group, annotations: Iterator[Annotations], annotator: Annotator) -> Iterator[Trajectory]:
    for trajectory, entry in zip(group.trajectories, annotations, strict=False):
        where = f"group {group.group_id!r}, trajectory {trajectory.trajectory_id!r}"
        _check(trajectory, entry, annotator, f"{annotator.provenance.annotator}: {where}")
        yield _written(trajectory, entry, annotator.provenance.text())


def _require_absent(groups: Sequence[Group], names: Sequence[str]) -> None:
    for group in groups:
        for trajectory in group.trajectories:
            for name in names:
                if _has(trajectory, name):
                    who = trajectory.provenance.get(name, "an unnamed annotator")
                    raise AnnotationError(
                        f"group {group.group_id!r}, trajectory {trajectory.trajectory_id!r} has {name!r} already, "
                        f"written by {who}; replace it with --overwrite"
                    )


def _has(trajectory: Trajectory, name: str) -> bool:
    """Whether a trajectory, its turns or its tokens have values of this name, with or without provenance."""
    in_tokens = trajectory.tokens is not None and name in trajectory.tokens.values
    in_turns = any(name in turn.values for turn in trajectory.turns)
    return name in trajectory.provenance or name in trajectory.values or in_tokens or in_turns


def _check(trajectory: Trajectory, annotations: Annotations, annotator: Annotator, where: str) -> None:
    """Raise AnnotationError unless the values have the names that the annotator declares, and fit the trajectory."""
    tokens = len(trajectory.tokens.ids) + 1 if trajectory.tokens is not None else 0
    levels: tuple[tuple[str, Any, tuple[str, ...], int], ...] = (
        ("turns", annotations.turns, annotator.turn_names, len(trajectory.turns)),
        ("tokens", annotations.tokens, annotator.token_names if tokens else (), tokens),
        ("trajectory", annotations.trajectory, annotator.trajectory_names, 0),
    )
    for level, values, declared, count in levels:
        if set(values) != set(declared):
            raise AnnotationError(f"{where}: expected for its {level} {sorted(declared)}, got {sorted(values)}")
        for name, numbers in values.items():
            array = np.asarray(numbers, np.float64)
            if level != "trajectory" and array.shape != (count,):
                raise AnnotationError(f"{where}: expected {count} values {name!r}, got an array of shape {array.shape}")
            wrong = np.flatnonzero(~np.isfinite(np.atleast_1d(array)))
            if len(wrong):
                raise AnnotationError(
                    f"{where}: {name!r} is {np.atleast_1d(array)[wrong[0]]} at {level} {wrong[0]}; values must be finite"
                )


def _written(trajectory: Trajectory, annotations: Annotations, provenance: str) -> Trajectory:
    columns = {name: np.asarray(numbers, np.float64).tolist() for name, numbers in annotations.turns.items()}
    turns = []
    for t, turn in enumerate(trajectory.turns):
        of_turn = {name: column[t] for name, column in columns.items()}
        turns.append(replace(turn, values={**turn.values, **of_turn}))
    tokens = trajectory.tokens
    if tokens is not None and annotations.tokens:
        fresh = {name: np.asarray(numbers, np.float32) for name, numbers in annotations.tokens.items()}
        tokens = replace(tokens, values={**tokens.values, **fresh})
    names = (*annotations.turns, *annotations.trajectory, *annotations.tokens)
    return replace(
        trajectory,
        turns=tuple(turns),
        tokens=tokens,
        values={**trajectory.values, **{name: float(number) for name, number in annotations.trajectory.items()}},
        provenance={**trajectory.provenance, **dict.fromkeys(names, provenance)},
    )
