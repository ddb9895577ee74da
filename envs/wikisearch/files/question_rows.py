"""The tasks of a question file, read once per process: every environment of a group opens the same file."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.files.paths import checked_path
from creditflow.envs.tasks import PanelRow, Task
from creditflow.envs.wikisearch.files.question_files import read_questions
from creditflow.envs.wikisearch.questions import Question, question_task

__all__ = ["file_rows", "question_over"]


def question_over(question: Question, digest: str) -> Task:
    """The task of a question over the corpus with this digest ("" for an unknown one).

    Raises:
        DataError: the question is about another corpus.
    """
    if digest and question.corpus not in ("", digest):
        raise DataError(f"the question is about the corpus {question.corpus[:40]!r}, this source has {digest!r}")
    return question_task(question)


def file_rows(path: Any, digest: str, file_format: str, answers: str) -> tuple[PanelRow, ...]:
    """The different questions of a file, in order, over the corpus with this digest; read again once the file has changed.

    Raises:
        ConfigError: the path or an option is not a text, or the option is unknown.
        DataError: the file is malformed, or a question is about another corpus.
    """
    file = checked_path("questions", path)
    for name, value in (("file_format", file_format), ("answers", answers)):
        if not isinstance(value, str):
            raise ConfigError(f"{name} must be a text, got {short_repr(value)}")
    try:
        status = file.stat()
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError:
        stamp = (0, 0, 0)  # reading it says what is wrong
    return _rows(file, stamp, digest, file_format, answers)


@lru_cache(maxsize=4)
def _rows(file: Path, stamp: tuple[int, int, int], digest: str, file_format: str, answers: str) -> tuple[PanelRow, ...]:
    del stamp
    rows: dict[str, PanelRow] = {}  # a question that a file holds twice is one task
    for question in read_questions(file, file_format=file_format, answers=answers):
        task = question_over(replace(question, corpus=question.corpus or digest), digest)
        rows[task.task_id] = PanelRow(task.task_id, "all", task.content, {"kind": question.kind})
    return tuple(rows.values())
