"""``creditflow data check nq_open`` (or ``triviaqa``, ``popqa``, ``bamboogle``, ``frames``): a file of questions and answers compared with ``slices-v1``.

These data sets have no ids of their own in all of their copies, so a question is found by its text.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from creditflow.envs.data_report import DataReport, Difference, PartReport
from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import read_json_rows
from creditflow.envs.wikisearch.questions import question_task
from creditflow.envs.wikisearch.slices.panel import SLICES, SPLIT_OF, listed_ids
from creditflow.envs.wikisearch.slices.questions import question_hash, released_question

__all__ = ["PLAIN_SETS", "check_slice"]

PLAIN_SETS: Final = {
    name: SPLIT_OF.get(name, "test") for name in ("nq_open", "triviaqa", "popqa", "bamboogle", "frames")
}
KINDS: Final = ("same", "changed", "missing", "unusable")


def check_slice(name: str, path: str | Path, splits: Collection[str] = ()) -> DataReport:
    """Compare a question file with the panel. Questions that the panel does not list are not looked at.

    Args:
        name: one of ``PLAIN_SETS``.
        path: the authors' file, or a repacked one.
        splits: only these; () for all.

    Raises:
        DataError: the file cannot be read, or a line is not JSON.
    """
    listed = listed_ids(name, splits)
    kinds = dict.fromkeys(listed, "missing")
    details: dict[str, str] = {}
    for _, row in read_json_rows(path):
        digest = question_hash(row.get("question", row.get("Question"))) if isinstance(row, dict) else ""
        if kinds.get(digest, "same") == "same":
            continue  # not listed, or found already: some files ask a question twice, with other answers
        try:
            same = question_task(released_question(name, row)).task_id == listed[digest]
        except DataError as error:
            kinds[digest], details[digest] = "unusable", " ".join(str(error).split())[:300]
            continue
        kinds[digest] = "same" if same else "changed"
        details[digest] = "" if same else "other golden answers: exact match and F1 differ"
    split = PLAIN_SETS[name]
    verdicts = list(kinds.values())
    counts = {kind: verdicts.count(kind) for kind in KINDS}
    complete = counts["same"] == len(verdicts)
    if complete:
        verdict = f"can stand for the slice of {name}; panel='{SLICES}:{name}-{split}' can be played"
    elif counts["missing"] == len(verdicts):
        verdict = f"cannot stand for the slice of {name}: none of its questions is here; is this the file of another split or data set?"
    else:
        verdict = f"cannot stand for the slice of {name}: get the file again from its authors"
    differences = [
        Difference(split, kind, digest, details.get(digest, ""))
        for kind in KINDS[1:]
        for digest, verdict_kind in kinds.items()
        if verdict_kind == kind
    ]
    report = PartReport(split, len(verdicts), len(verdicts), counts, complete, complete, verdict)
    return DataReport(name, SLICES, str(path), [report], differences)
