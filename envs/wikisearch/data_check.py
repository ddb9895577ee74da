"""``creditflow data check hotpotqa`` (or ``2wiki``, ``musique``): a question file compared with the manifest of a slice.

A slice is a fixed list of ids of a published data set. Of every question the manifest has two hashes, and none of its texts: one of
the question and its golden answers, which decide exact match and F1; one of the golden evidence (MuSiQue's sub-questions,
2Wiki's triples), which only schemes and the oracle read. Passage ids are not compared: they belong to a corpus.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any, Final

from creditflow.envs.data_report import DataReport, Difference, PartReport
from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.manifests import embedded_manifest
from creditflow.envs.reading.json_text import read_json_rows
from creditflow.envs.tasks import content_id
from creditflow.envs.wikisearch.question_files import read_question
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.slices import SLICES, listed_ids, question_hash, released_question

__all__ = [
    "DATA_SETS",
    "MANIFEST",
    "SPLITS",
    "Listed",
    "check_questions",
    "list_questions",
    "load_slices",
    "write_slices",
]

DATA_SETS: Final = ("hotpotqa", "2wiki", "musique")
MANIFEST: Final = "slices-v1"
SPLITS: Final = ("train", "dev")
KINDS: Final = ("same", "other evidence", "changed", "missing", "unusable")
FORMAT: Final = 1
MAX_DETAIL: Final = 300  # characters


@dataclass(frozen=True, slots=True)
class Listed:
    """A question of a slice.

    Attributes:
        id: its id in the data set.
        split: "train" or "dev".
        question: hash of text and golden answers, 16 hex digits.
        evidence: hash of the golden evidence, 16 hex digits.
    """

    id: str
    split: str
    question: str
    evidence: str


def _listed(question: Question, split: str) -> Listed:
    words = content_id("", [question.text, sorted(set(question.answers))])[1:17]
    steps = [[step.question, step.answer] for step in question.steps]
    return Listed(question.id, split, words, content_id("", steps or [list(edge) for edge in question.edges])[1:17])


def list_questions(path: str | Path) -> list[Listed]:
    """Return the rows of a manifest for a file whose rows name their split.

    Raises:
        DataError: a malformed file or row.
    """
    return [_listed(read_question(row), str(row.get("split", ""))) for _, row in read_json_rows(path)]


def write_slices(path: str | Path, slices: Mapping[str, Collection[Listed]]) -> None:
    """Write a manifest, one question per line: ``[id, split, question, evidence]`` by data set."""
    sets = []
    for name, rows in slices.items():
        lines = ",\n".join(json.dumps([row.id, row.split, row.question, row.evidence]) for row in rows)
        sets.append(f"{json.dumps(name)}: [\n{lines}\n]")
    with atomic_writer(path) as out:
        out.write(f'{{"format_version": {FORMAT}, "slices": {{\n' + ",\n".join(sets) + "\n}}\n")


def load_slices(name: str = MANIFEST) -> dict[str, tuple[Listed, ...]]:
    """Load an embedded manifest.

    Raises:
        DataError: the file violates the format.
    """
    slices = embedded_manifest("wikisearch", name, FORMAT)["slices"]
    return {kind: tuple(starmap(Listed, rows)) for kind, rows in slices.items()}


def check_questions(
    name: str, path: str | Path, rows: Collection[Listed], splits: Collection[str] = SPLITS
) -> DataReport:
    """Compare a question file with a slice. Questions that the slice does not list are not looked at.

    Args:
        name: name of the data set.
        path: the authors' file, or a repacked one; see ``question_files``.
        rows: the slice.
        splits: only these. The authors have a file for each split: check it with one.

    Raises:
        DataError: the file cannot be read, or a line is not JSON.
    """
    expected = {row.id: row for row in rows if row.split in splits}
    ids = listed_ids(name)
    kinds: dict[str, str] = {}
    details: dict[str, str] = {}
    for where, row in read_json_rows(path):
        asked = str(row.get("id", row.get("_id", ""))) if isinstance(row, Mapping) else ""
        if asked not in expected:
            continue
        kind, detail = _compared(row, expected[asked])
        if kind == "same" and not _as_in_panel(name, row, ids):
            kind, detail = "other evidence", "the type or the golden passages' titles differ from the panel's"
        if asked in kinds:
            kind, detail = "unusable", f"the id occurs twice (again: {where})"
        kinds[asked], details[asked] = kind, detail
    differences = [
        Difference(row.split, kinds.get(row.id, "missing"), row.id, details.get(row.id, ""))
        for row in sorted(expected.values(), key=lambda row: (SPLITS.index(row.split), row.id))
        if kinds.get(row.id) != "same"
    ]
    reports = [
        _part(name, split, [row for row in expected.values() if row.split == split], kinds)
        for split in SPLITS
        if split in splits
    ]
    return DataReport(name, MANIFEST, str(path), reports, differences)


def _compared(row: Any, listed: Listed) -> tuple[str, str]:
    try:
        actual = _listed(read_question(row), listed.split)
    except DataError as error:
        return "unusable", " ".join(str(error).split())[:MAX_DETAIL]
    if actual.question != listed.question:
        return "changed", "another question text or other golden answers: exact match and F1 differ"
    if actual.evidence != listed.evidence:
        return "other evidence", "exact match and F1 are unaffected; credit by evidence, and the oracle, differ"
    return "same", ""


def _as_in_panel(name: str, row: Mapping[str, Any], ids: Mapping[str, str]) -> bool:
    """Whether a question has the panel's id; also True for questions that the panel does not list."""
    listed = ids.get(question_hash(row["question"]))
    try:
        return listed is None or listed == question_task(released_question(name, row)).task_id
    except DataError:
        return False


def _part(name: str, split: str, rows: Collection[Listed], kinds: Mapping[str, str]) -> PartReport:
    verdicts = [kinds.get(row.id, "missing") for row in rows]
    counts = {kind: verdicts.count(kind) for kind in KINDS}
    complete = counts["same"] == len(rows)
    if complete:
        verdict = f"can stand for the slice {MANIFEST} of {name} {split}; panel='{SLICES}:{name}-{split}' can be played"
    elif counts["missing"] == len(rows):
        verdict = f"cannot stand for the slice of {split}: is this the file of another split? --only names the splits to check"
    elif counts["same"] + counts["other evidence"] == len(rows):
        verdict = f"can stand for the slice of {split} where answers are scored, not where evidence is read"
    else:
        verdict = f"cannot stand for the slice of {split}: get the file again from the authors of {name}"
    return PartReport(split, len(rows), len(rows), counts, complete, complete, verdict)
