"""A question file is read once per process, and again once it has changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import creditflow
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.wikisearch import question_files
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.question_files import read_questions


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Paths of the question files that were read, in order."""
    read: list[Path] = []

    def counting(path: Path, **options: str) -> object:
        read.append(path)
        return read_questions(path, **options)

    monkeypatch.setattr(question_files, "read_questions", counting)
    return read


def written(folder: Path, *texts: str) -> Path:
    path = folder / "q.jsonl"
    path.write_text("".join(json.dumps({"question": text, "answer": "a"}) + "\n" for text in texts), encoding="utf-8")
    return path


def texts_of(path: Path, corpus: Path) -> list[str]:
    env = WikiSearchEnv(questions=str(path), corpus=str(corpus))
    return [env.tasks.get(task_id).content["text"] for task_id in env.tasks.task_ids()]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"id": "1", "title": "t", "text": "a"}) + "\n", encoding="utf-8")
    return path


def test_environments_of_one_file_read_it_once(tmp_path: Path, corpus: Path, counted: list[Path]) -> None:
    path = written(tmp_path, "one?", "two?")
    assert [texts_of(path, corpus) for _ in range(3)] == [["one?", "two?"]] * 3
    assert counted == [path]


def test_a_changed_file_is_read_again(tmp_path: Path, corpus: Path, counted: list[Path]) -> None:
    path = written(tmp_path, "one?")
    assert texts_of(path, corpus) == ["one?"]
    found = path.stat()
    written(tmp_path, "two?")  # as long as before
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert texts_of(path, corpus) == ["two?"]
    path.unlink()
    with pytest.raises(DataError, match=r"q\.jsonl"):
        texts_of(path, corpus)
    assert counted == [path] * 3


@pytest.mark.parametrize("options", [{"file_format": ["auto"]}, {"questions": 3}])
def test_options_of_another_type_are_configuration_errors(
    tmp_path: Path, corpus: Path, options: dict[str, object]
) -> None:
    given = {"questions": str(written(tmp_path, "one?")), "corpus": str(corpus)} | options
    with pytest.raises(ConfigError, match=next(iter(options))):
        creditflow.make("wikisearch", **given)
