"""Annotate a log in batches: written to OUT.partial, which is renamed to OUT when complete.

After an interruption the same command with ``--resume`` continues and gives the same file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from creditflow.envs.errors import TrajectoryError
from creditflow.envs.reading.json_text import parse_json
from creditflow.train.annotate.apply import annotate
from creditflow.train.annotate.base import AnnotationError, Annotator
from creditflow.train.progress import progress
from creditflow.train.rollout.workers.pool import Executor, run_in_order
from creditflow.train.run.identity import require_same
from creditflow.train.run.interrupted import log_lines, write_log
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups, read_jsonl, write_jsonl
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["annotate_log"]

V = TypeVar("V")


def annotate_log(
    groups: Sequence[Group],
    annotator: Annotator,
    out: Path,
    *,
    batch: int = 16,
    resume: bool = False,
    overwrite: bool = False,
    executor: Callable[[], Executor] | None = None,
) -> int:
    """Write the annotated groups to ``out``; returns the number of groups that were annotated already.

    Args:
        groups: groups of the input, in order.
        annotator: the annotator.
        out: a .jsonl or .jsonl.gz file.
        batch: groups per call of the annotator.
        resume: continue an interrupted command.
        overwrite: see ``annotate``.
        executor: starts workers that annotate batches given as lines of a log; default is this process.

    Raises:
        ConfigError: an interrupted command left a file, and ``resume`` is False.
        AnnotationError: see ``annotate``; or the unfinished file was not written by this command.
    """

    def remaining(finished: int) -> Iterator[list[Group]]:
        batches = [groups[start : start + batch] for start in range(finished, len(groups), batch)]
        what = f"annotate with {annotator.provenance.annotator}"
        if executor is None or not batches:
            annotated = (annotate(chunk, annotator, overwrite=overwrite) for chunk in batches)
            yield from progress(annotated, what, len(batches))
            return
        with closing(run_in_order(executor(), list(map(_lines, batches)))) as results:
            yield from progress((read_groups(io.StringIO(text)) for text in results), what, len(batches))

    _, finished = write_log(out, remaining, finished=lambda left: _finished(left, groups, annotator), resume=resume)
    return finished


def _lines(groups: Sequence[Group]) -> str:
    stream = io.StringIO()
    write_jsonl(stream, groups)
    return stream.getvalue()


def _finished(partial: Path, groups: Sequence[Group], annotator: Annotator) -> list[Group]:
    """The complete groups that an interrupted command wrote, if this command would have written them and what follows them."""
    lines = log_lines(partial)
    done, used = list[Group](), 0
    for group in groups:
        rows = lines[used : used + len(group)]
        try:
            members = list(read_jsonl(io.StringIO("".join(rows))))
        except TrajectoryError as error:
            raise TrajectoryError(f"{partial}: after line {used}: {error}; delete the file to start over") from error
        used += len(rows)
        if not _same(members, group, annotator):
            _require_same_annotator(members, annotator, partial)
            raise AnnotationError(
                f"{partial}: the entry for group {group.group_id!r} was not written by this command: its input or "
                "its values differ; delete the file to start over"
            )
        if len(rows) < len(group):
            break
        done.append(replace(group, trajectories=tuple(members)))
    if used < len(lines):
        raise AnnotationError(f"{partial}: contains more groups than the input; delete the file to start over")
    return done


def _require_same_annotator(found: Sequence[Trajectory], annotator: Annotator, partial: Path) -> None:
    """Compare the provenance in the file with that of the annotator.

    Raises:
        AnnotationError: lists every field of the provenance that differs.
    """
    current = json.loads(annotator.provenance.text())
    written = {*annotator.turn_names, *annotator.trajectory_names}
    for text in sorted({member.provenance[name] for member in found for name in written & member.provenance.keys()}):
        try:
            require_same(parse_json(text, where=str(partial)), current, str(partial))
        except ValueError as error:
            raise AnnotationError(f"{error}\n(or delete the file to start over)") from error


def _same(found: Sequence[Trajectory], group: Group, annotator: Annotator) -> bool:
    """Whether the trajectories are the first ones of ``group`` with this annotator's values."""
    written = {*annotator.turn_names, *annotator.trajectory_names}
    provenance = annotator.provenance.text()
    for annotated, member in zip(found, group.trajectories, strict=False):
        if any(annotated.provenance.get(name) != provenance for name in written):
            return False
        if _bare(annotated, annotator) != _bare(member, annotator):
            return False
    return True


def _bare(trajectory: Trajectory, annotator: Annotator) -> Trajectory:
    """The trajectory without what the annotator writes."""
    names = {*annotator.turn_names, *annotator.trajectory_names, *annotator.token_names}
    tokens = trajectory.tokens
    return replace(
        trajectory,
        turns=tuple(replace(turn, values=_without(turn.values, names)) for turn in trajectory.turns),
        tokens=None if tokens is None else replace(tokens, values=_without(tokens.values, names)),
        values=_without(trajectory.values, names),
        provenance=_without(trajectory.provenance, names),
    )


def _without(values: Mapping[str, V], names: Collection[str]) -> dict[str, V]:
    return {name: value for name, value in values.items() if name not in names}
