"""The labels of trajectories and their file: which turns were pivots, and whether the episode succeeded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["TURN_LABELS", "Labels", "read_labels", "write_labels"]

FORMAT_VERSION: Final = 2
TURN_LABELS: Final = ("+", "-", "")  # a pivot, not a pivot, neither (an invalid action)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of one trajectory.

    Attributes:
        group_id, trajectory_id: the trajectory.
        turn_labels: one of ``TURN_LABELS`` per turn; the turn that answers has "+" if the answer is correct.
        success: the outcome.
        labeller: name of the labeller.
    """

    group_id: str
    trajectory_id: str
    turn_labels: tuple[str, ...]
    success: bool
    labeller: str

    def check(self, trajectory: Trajectory) -> None:
        """Raise DataError unless these are the labels of ``trajectory``."""
        where = f"labels of trajectory {self.trajectory_id!r} of group {self.group_id!r}"
        if (self.group_id, self.trajectory_id) != (trajectory.group_id, trajectory.trajectory_id):
            raise DataError(f"{where}: given to {trajectory.trajectory_id!r} of group {trajectory.group_id!r}")
        if len(self.turn_labels) != len(trajectory.turns):
            raise DataError(
                f"{where}: {len(self.turn_labels)} turn labels for {len(trajectory.turns)} turns; label this very log again"
            )
        if self.success != trajectory.success:
            raise DataError(f"{where}: success is {self.success} in the labels, {trajectory.success} in the log")


def write_labels(path: str | Path, labels: Sequence[Labels]) -> None:
    """Write one JSON object per line."""
    with atomic_writer(path) as stream:
        for entry in labels:
            row = {
                "format_version": FORMAT_VERSION,
                "group_id": entry.group_id,
                "trajectory_id": entry.trajectory_id,
                "turn_labels": list(entry.turn_labels),
                "success": entry.success,
                "labeller": entry.labeller,
            }
            stream.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")


def read_labels(path: str | Path) -> dict[tuple[str, str], Labels]:
    """Labels by (group id, trajectory id).

    Raises:
        DataError: a malformed line, an unknown turn label, or a trajectory labelled twice.
    """
    by_trajectory: dict[tuple[str, str], Labels] = {}
    for where, row in read_json_lines(path):
        with loading(f"{where}: not a line of labels"):
            entry = _read_row(row)
        key = (entry.group_id, entry.trajectory_id)
        if key in by_trajectory:
            raise DataError(
                f"{where}: trajectory {entry.trajectory_id!r} of group {entry.group_id!r} is labelled twice"
            )
        by_trajectory[key] = entry
    return by_trajectory


def _read_row(row: Mapping[str, object]) -> Labels:
    if row["format_version"] != FORMAT_VERSION:
        raise ValueError(f"format_version {row['format_version']!r}, expected {FORMAT_VERSION}")
    turn_labels, success = row["turn_labels"], row["success"]
    if not isinstance(turn_labels, list) or not all(label in TURN_LABELS for label in turn_labels):
        raise ValueError(f"turn_labels must be a list of {', '.join(map(repr, TURN_LABELS))}")
    if not isinstance(success, bool):
        raise TypeError("success must be true or false")
    texts = [row[name] for name in ("group_id", "trajectory_id", "labeller")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("group_id, trajectory_id and labeller must be texts")
    return Labels(str(texts[0]), str(texts[1]), tuple(turn_labels), success, str(texts[2]))
