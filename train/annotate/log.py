"""Annotate a log in batches: written to OUT.partial, which is renamed to OUT when complete.

After an interruption the same command with ``--resume`` continues and gives the same file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from creditflow.envs.reading.json_text import parse_json
from creditflow.train.annotate.apply import annotate
from creditflow.train.annotate.base import AnnotationError, Annotator
from creditflow.train.progress import progress
from creditflow.train.rollout.workers.pool import run_in_order
from creditflow.train.run.identity import require_same
from creditflow.train.run.interrupted import complete_groups, write_log
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["annotate_log"]


def annotate_log(
    groups: Sequence[Group],
    annotator: Annotator,
    out: Path,
    *,
    batch: int = 16,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 0,
    function: Callable[[str], str] | None = None,
) -> int:
    """Write the annotated groups to ``out``; returns the number of groups that were annotated already.

    Args:
        groups: groups of the input, in order.
        annotator: the annotator.
        out: a .jsonl or .jsonl.gz file.
        batch: groups per call of the annotator.
        resume: continue an interrupted command.
        overwrite: see ``annotate``.
        workers: number of processes that annotate; 0 is this process.
        function: annotates a batch given as lines of a log in such a process.

    Raises:
        ConfigError: an interrupted command left a file, and ``resume`` is False.
        AnnotationError: see ``annotate``; or the unfinished file was not written by this command.
    """

    def remaining(finished: int) -> Iterator[list[Group]]:
        batches = [groups[start : start + batch] for start in range(finished, len(groups), batch)]
        what = f"annotate with {annotator.provenance.annotator}"
        if function is None or not workers or not batches:
            annotated = (annotate(chunk, annotator, overwrite=overwrite) for chunk in batches)
            yield from progress(annotated, what, len(batches))
            return
        with closing(run_in_order(function, list(map(_lines, batches)), workers)) as results:
            yield from progress((read_groups(io.StringIO(text)) for text in results), what, len(batches))

    _, finished = write_log(out, remaining, finished=lambda left: _finished(left, groups, annotator), resume=resume)
    return finished


def _lines(groups: Sequence[Group]) -> str:
    stream = io.StringIO()
    write_jsonl(stream, groups)
    return stream.getvalue()


def _finished(partial: Path, groups: Sequence[Group], annotator: Annotator) -> list[Group]:
    """The complete groups that an interrupted command wrote, if it was this command with this input."""
    done = complete_groups(partial)
    if len(done) > len(groups):
        raise AnnotationError(f"{partial}: contains more groups than the input; delete the file to start over")
    for annotated, group in zip(done, groups, strict=False):
        _require_same_annotator(annotated, annotator, partial)
        if [_played(member) for member in annotated.trajectories] != [
            _played(member) for member in group.trajectories[: len(annotated)]
        ]:
            raise AnnotationError(
                f"{partial}: the entry for group {group.group_id!r} was written from another input; delete the file to start over"
            )
    if done and len(done[-1]) < len(groups[len(done) - 1]):
        done.pop()
    return done


def _require_same_annotator(group: Group, annotator: Annotator, partial: Path) -> None:
    """Compare the provenance in the file with that of the annotator.

    Raises:
        AnnotationError: lists every field of the provenance that differs.
    """
    current = json.loads(annotator.provenance.text())
    names = {*annotator.turn_names, *annotator.trajectory_names}
    for text in sorted({member.provenance.get(name, "") for member in group.trajectories for name in names}):
        if not text:
            raise AnnotationError(
                f"{partial}: group {group.group_id!r} was not written by this command; delete the file to start over"
            )
        try:
            require_same(parse_json(text, where=str(partial)), current, str(partial))
        except ValueError as error:
            raise AnnotationError(f"{error}\n(or delete the file to start over)") from error


def _played(trajectory: Trajectory) -> tuple[object, ...]:
    """What tells a trajectory from others, with or without annotations."""
    return trajectory.trajectory_id, trajectory.score, *((turn.state_key, turn.action) for turn in trajectory.turns)
