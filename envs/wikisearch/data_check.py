"""``creditflow data check hotpotqa`` (or ``2wiki``, ``musique``): a question file compared with the manifest of a slice.

A slice is a fixed list of ids of a published data set. Of every question the manifest has two hashes, and none of its texts: one of
the question and its golden answers, which decide exact match and F1; one of the golden evidence (MuSiQue's sub-questions,
2Wiki's triples), which only schemes and the oracle read. Passage ids are not compared: they belong to a corpus.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError
from creditflow.envs.manifests import DataReport, Item, embedded_manifest, problem_text, verify
from creditflow.envs.reading.json_text import read_json_rows
from creditflow.envs.tasks import content_id
from creditflow.envs.wikisearch.question_files import read_question
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.slices import listed_ids, question_hash, released_question

__all__ = [
    "DATA_SETS",
    "MANIFEST",
    "SPLITS",
    "Listed",
    "check_questions",
    "listed_question",
    "load_slices",
]

DATA_SETS: Final = ("hotpotqa", "2wiki", "musique")
MANIFEST: Final = "slices-v1"
SPLITS: Final = ("train", "dev")
FORMAT: Final = 1


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


def listed_question(question: Question, split: str) -> Listed:
    """The row of a manifest for a question."""
    words = content_id("", [question.text, sorted(set(question.answers))])[1:17]
    steps = [[step.question, step.answer] for step in question.steps]
    return Listed(question.id, split, words, content_id("", steps or [list(edge) for edge in question.edges])[1:17])


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
    return verify(
        name, MANIFEST, str(path),
        {(row.split, row.id): (f"{row.question}{row.evidence}", row.question) for row in expected.values()},
        _items(name, path, expected),
        parts=[split for split in SPLITS if split in splits],
        source=f"get the file again from the authors of {name}; --only names the splits to check",
        alike="exact match and F1 are unaffected; credit by evidence, and the oracle, differ",
    )  # fmt: skip


def _items(name: str, path: str | Path, expected: Mapping[str, Listed]) -> Iterator[Item]:
    ids = listed_ids(name)
    for _, row in read_json_rows(path):
        asked = str(row.get("id", row.get("_id", ""))) if isinstance(row, Mapping) else ""
        if asked not in expected:
            continue
        split = expected[asked].split
        try:
            actual = listed_question(read_question(row), split)
        except DataError as error:
            yield Item(split, asked, problem=problem_text(error))
            continue
        evidence = (
            actual.evidence if _as_in_panel(name, row, ids) else "another type, or other titles of golden passages"
        )
        yield Item(split, asked, f"{actual.question}{evidence}", actual.question)


def _as_in_panel(name: str, row: Mapping[str, Any], ids: Mapping[str, str]) -> bool:
    """Whether a question has the panel's id; also True for questions that the panel does not list."""
    listed = ids.get(question_hash(row["question"]))
    try:
        return listed is None or listed == question_task(released_question(name, row)).task_id
    except DataError:
        return False
