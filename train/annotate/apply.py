"""Numbers into records: what an annotator returned is checked, turn by turn, and written beside its provenance."""

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
    """The groups with an annotator's numbers in them; everything else is as it was.

    Args:
        groups: what is annotated, in one batch.
        annotator: who writes.
        overwrite: numbers of the same names that are there already are written over, otherwise refused.

    Raises:
        AnnotationError: names that are there already; a wrong count, missing turns or names, a number that is not
            finite. Nothing is returned then.
    """
    names = (*annotator.turn_names, *annotator.trajectory_names, *annotator.token_names)
    if not overwrite:
        _refuse_present(groups, names)
    notes = annotator.annotate(groups)
    total = sum(map(len, groups))
    if len(notes) != total:
        raise AnnotationError(
            f"{annotator.provenance.annotator} returned numbers for {len(notes)} trajectories, {total} were asked for"
        )
    left = iter(notes)
    return [replace(group, trajectories=tuple(_members(group, left, annotator))) for group in groups]


def _members(group: Group, notes: Iterator[Annotations], annotator: Annotator) -> Iterator[Trajectory]:
    for trajectory, one in zip(group.trajectories, notes, strict=False):
        where = f"group {group.group_id!r}, trajectory {trajectory.trajectory_id!r}"
        _check(trajectory, one, annotator, f"{annotator.provenance.annotator}: {where}")
        yield _written(trajectory, one, annotator.provenance.text())


def _refuse_present(groups: Sequence[Group], names: Sequence[str]) -> None:
    for group in groups:
        for trajectory in group.trajectories:
            for name in names:
                if name in trajectory.provenance or any(name in turn.values for turn in trajectory.turns):
                    who = trajectory.provenance.get(name, "somebody who left no name")
                    raise AnnotationError(
                        f"group {group.group_id!r}, trajectory {trajectory.trajectory_id!r} has {name!r} already, "
                        f"written by {who}; ask for it to be written over (--overwrite), or leave it"
                    )


def _check(trajectory: Trajectory, notes: Annotations, annotator: Annotator, where: str) -> None:
    """Raise AnnotationError unless the notes are what the annotator promises, and fit the trajectory."""
    tokens = len(trajectory.tokens.ids) + 1 if trajectory.tokens is not None else 0
    parts: tuple[tuple[str, Any, tuple[str, ...], int], ...] = (
        ("turns", notes.turns, annotator.turn_names, len(trajectory.turns)),
        ("tokens", notes.tokens, annotator.token_names if tokens else (), tokens),
        ("trajectory", notes.trajectory, annotator.trajectory_names, 0),
    )
    for part, given, promised, count in parts:
        if set(given) != set(promised):
            raise AnnotationError(f"{where}: expected for its {part} {sorted(promised)}, got {sorted(given)}")
        for name, numbers in given.items():
            array = np.asarray(numbers, np.float64)
            if part != "trajectory" and array.shape != (count,):
                raise AnnotationError(f"{where}: expected {count} numbers {name!r}, one for each, got {array.shape}")
            wrong = np.flatnonzero(~np.isfinite(np.atleast_1d(array)))
            if len(wrong):
                raise AnnotationError(
                    f"{where}: {name!r} is {np.atleast_1d(array)[wrong[0]]} at {part} {wrong[0]}; numbers must be finite"
                )


def _written(trajectory: Trajectory, notes: Annotations, provenance: str) -> Trajectory:
    columns = {name: np.asarray(numbers, np.float64).tolist() for name, numbers in notes.turns.items()}
    turns = tuple(
        replace(turn, values={**turn.values, **{name: column[t] for name, column in columns.items()}})
        for t, turn in enumerate(trajectory.turns)
    )
    tokens = trajectory.tokens
    if tokens is not None and notes.tokens:
        fresh = {name: np.asarray(numbers, np.float32) for name, numbers in notes.tokens.items()}
        tokens = replace(tokens, values={**tokens.values, **fresh})
    names = (*notes.turns, *notes.trajectory, *notes.tokens)
    return replace(
        trajectory,
        turns=turns,
        tokens=tokens,
        values={**trajectory.values, **{name: float(number) for name, number in notes.trajectory.items()}},
        provenance={**trajectory.provenance, **dict.fromkeys(names, provenance)},
    )
