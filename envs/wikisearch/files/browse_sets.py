"""Question sets for browsing agents, by the path of the published file: BrowseComp, BrowseComp-ZH, xbench-DeepSearch, GAIA.

The first three are published so that no crawler reads their texts by accident: each is base64 of the UTF-8 text, XORed with a
key that stands in the row's ``canary``. They are read as they are published, and nothing here stores them in the clear. Questions
of GAIA that come with an attached file are left out: no text environment shows it.

=============== ============================================= ================================================
format          columns                                       key
=============== ============================================= ================================================
browsecomp      problem, answer, problem_topic, canary        SHA-256 of the canary, repeated
browsecomp_zh   Question, Answer, Topic, canary               the same
xbench          id, prompt, answer, canary                    the canary itself, repeated
gaia            task_id, Question, Level, Final answer, …     none
=============== ============================================= ================================================
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import read_json_rows
from creditflow.envs.reading.streams import read_text
from creditflow.envs.wikisearch.questions import Question

__all__ = ["BROWSE_SETS", "browse_set_of", "has_attachment", "read_rows", "unlocked"]

MAX_TABLE: Final = 2**28  # characters of a CSV file; BrowseComp's has 2.6 MB


def read_rows(path: str | Path) -> list[tuple[str, Any]]:
    """The rows of a question file: JSON lines, a JSON list, or CSV with a header (``.csv``, gzip or not).

    Raises:
        DataError: the file is malformed; names the row.
    """
    if not str(path).removesuffix(".gz").endswith(".csv"):
        return read_json_rows(path)
    text = read_text(path, MAX_TABLE).removeprefix("\ufeff")
    try:
        table = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        rows = [(f"{path}: row {number}", row) for number, row in enumerate(table, 1)]
    except csv.Error as error:
        raise DataError(f"{path}: not a table of comma-separated values: {error}") from error
    for where, row in rows:
        if None in row or None in row.values():
            raise DataError(f"{where}: has another number of columns than the header")
    return rows


def unlocked(text: Any, key: bytes) -> str:
    """The text of a published cell.

    >>> unlocked("KAA=", b"key")
    'Ce'

    Raises:
        DataError: it is not base64, or the key is not its key.
    """
    try:
        data = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
        return (data ^ np.resize(np.frombuffer(key, np.uint8), len(data))).tobytes().decode("utf-8")
    except (TypeError, ValueError) as error:  # UnicodeDecodeError too
        raise DataError(
            f"a cell cannot be read with the key of its row, got {short_repr(text)}: {type(error).__name__}"
        ) from error


def browse_set_of(row: Mapping[str, Any]) -> str:
    """The format of a row by its columns; "" for another."""
    for name, (columns, _) in BROWSE_SETS.items():
        if columns <= set(row):
            return name
    return ""


def has_attachment(row: Any) -> bool:
    """Whether a row of GAIA comes with a file that the question is about."""
    return isinstance(row, Mapping) and browse_set_of(row) == "gaia" and bool(row.get("file_name"))


def _canary(row: Mapping[str, Any]) -> bytes:
    canary = row["canary"]
    if not isinstance(canary, str) or not canary:
        raise DataError(f"the row's key stands under 'canary', got {short_repr(canary)}")
    return canary.encode()


def _digest(row: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(_canary(row)).digest()


def _browsecomp(row: Mapping[str, Any], fallback: str) -> Question:
    key = _digest(row)
    return _question(
        fallback, unlocked(row["problem"], key), unlocked(row["answer"], key), row.get("problem_topic", "")
    )


def _browsecomp_zh(row: Mapping[str, Any], fallback: str) -> Question:
    key = _digest(row)
    return _question(fallback, unlocked(row["Question"], key), unlocked(row["Answer"], key), row.get("Topic", ""))


def _xbench(row: Mapping[str, Any], fallback: str) -> Question:
    key = _canary(row)
    return _question(str(row.get("id") or fallback), unlocked(row["prompt"], key), unlocked(row["answer"], key), "")


def _gaia(row: Mapping[str, Any], fallback: str) -> Question:
    value = row["Final answer"]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"'Final answer' is a text or a number, got {short_repr(value)}")
    answer = str(value).strip()
    if answer == "?":
        raise DataError("GAIA publishes no answers of its test split: give the file of its validation split")
    return _question(
        str(row.get("task_id") or fallback), row["Question"], answer, f"level {row.get('Level', '')}".strip()
    )


def _question(name: str, text: Any, answer: str, kind: Any) -> Question:
    if not isinstance(text, str) or not answer.strip():
        raise DataError(f"a question is a text with an answer, got {short_repr(text)} and {short_repr(answer)}")
    return Question(id=name, text=text.strip(), answers=(answer.strip(),), kind=str(kind))


BROWSE_SETS: Final[Mapping[str, tuple[frozenset[str], Any]]] = {
    "browsecomp": (frozenset({"problem", "answer", "canary"}), _browsecomp),
    "browsecomp_zh": (frozenset({"Question", "Answer", "canary"}), _browsecomp_zh),
    "xbench": (frozenset({"prompt", "answer", "canary"}), _xbench),
    "gaia": (frozenset({"Question", "Final answer", "file_name"}), _gaia),
}
"""Formats: the columns by which a row is recognised, and the function that reads it."""
