"""Sets for browsing agents in the layouts in which they are published, encrypted by another implementation of their formulas."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import json
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.wikisearch_small import small_env
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.question_files import read_questions, unlocked

CANARY = "canary:1234-ab"


def locked(text: str, key: Iterable[int]) -> str:
    """Encryption as the sets' authors describe it, byte by byte."""
    return base64.b64encode(bytes(a ^ b for a, b in zip(text.encode(), cycle(key), strict=False))).decode()


def hashed(text: str) -> str:
    return locked(text, hashlib.sha256(CANARY.encode()).digest())


def plain(text: str) -> str:
    return locked(text, CANARY.encode())


ROWS: dict[str, dict[str, Any]] = {
    "browsecomp": {"problem": hashed("Who painted, née Ā?"), "answer": hashed(" Ada "), "problem_topic": "Art", "canary": CANARY},
    "browsecomp_zh": {"Topic": "艺术", "Question": hashed("谁？"), "Answer": hashed("阿达"), "canary": CANARY},
    "xbench": {"id": "7", "prompt": plain("谁？" * 50), "answer": plain("Ada"), "reference_steps": "x", "canary": CANARY},
    "gaia": {"task_id": "t", "Question": "Who?", "Level": 2, "Final answer": "Ada", "file_name": ""},
}  # fmt: skip
EXPECTED = {
    "browsecomp": ("1", "Who painted, née Ā?", "Ada", "Art"), "browsecomp_zh": ("1", "谁？", "阿达", "艺术"), "xbench": ("7", "谁？" * 50, "Ada", ""),
    "gaia": ("t", "Who?", "Ada", "level 2"),
}  # fmt: skip


def written(folder: Path, rows: list[dict[str, Any]], suffix: str) -> Path:
    path = folder / f"questions{suffix}"
    if ".csv" in suffix:
        opened: Any = gzip.open if suffix.endswith(".gz") else open
        with opened(path, "wt", encoding="utf-8-sig", newline="") as stream:
            table = csv.DictWriter(stream, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    else:
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".csv.gz"])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("named", [True, False])
def test_a_published_row_is_read(tmp_path: Path, name: str, suffix: str, named: bool) -> None:
    path = written(tmp_path, [ROWS[name]], suffix)
    [question] = read_questions(path, file_format=name if named else "auto")
    assert (question.id, question.text, *question.answers, question.kind) == EXPECTED[name]


@pytest.mark.parametrize("name", ["browsecomp", "xbench"])
def test_a_column_without_a_name_is_not_read(tmp_path: Path, name: str) -> None:
    [question] = read_questions(written(tmp_path, [{"": "17", **ROWS[name]}], ".csv"))
    assert (question.id, question.text, *question.answers, question.kind) == EXPECTED[name]


@given(st.text(), st.binary(min_size=1, max_size=40))
def test_unlocking_undoes_locking(text: str, key: bytes) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert unlocked(locked(text, key), key) == text


def test_questions_about_attached_files_are_left_out(tmp_path: Path) -> None:
    rows = [ROWS["gaia"] | {"task_id": str(i), "file_name": name} for i, name in enumerate(["", "a.png", ""])]
    assert [question.id for question in read_questions(written(tmp_path, rows, ".jsonl"))] == ["0", "2"]
    with pytest.raises(DataError, match="contains no questions"):
        read_questions(written(tmp_path, rows[1:2], ".jsonl"))


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("browsecomp", {"problem": "not base64!"}, "cannot be read with the key"),
        ("browsecomp", {"canary": ""}, "under 'canary'"),
        ("browsecomp", {"answer": hashed("")}, "a text with an answer"),
        ("xbench", {"prompt": base64.b64encode(b"\xff" * 40).decode()}, "cannot be read with the key"),
        ("gaia", {"Final answer": "?"}, "validation split"),
        ("gaia", {"Question": 3}, "a question is a text with"),
        ("gaia", {"Final answer": None}, "'Final answer' is a text or a number"),
        ("gaia", {"Final answer": ["Ada"]}, "'Final answer' is a text or a number"),
        ("browsecomp_zh", {"Question": 3}, "cannot be read with the key"),
    ],
)
def test_damaged_rows_name_their_line(tmp_path: Path, name: str, damage: dict[str, Any], message: str) -> None:
    path = written(tmp_path, [ROWS[name], ROWS[name] | damage], ".jsonl")
    with pytest.raises(DataError, match=message) as caught:
        read_questions(path)
    assert "line 2" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "problem,answer,canary\na,b\n", "problem,answer,canary\na,b,c,d\n", 'problem,answer,canary\n"a,b,c\n', "", "\n\n",
        "problem,answer,canary\n" + "x" * 200_000 + ",b,c\n", "problem,answer,canary\na\0b,b,c\n",
    ],
)  # fmt: skip
def test_damaged_tables_are_data_errors(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError):
        read_questions(tmp_path / "q.csv")


def test_such_questions_are_played_on_a_site(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "p", "contents": "Ada\nAda painted."}), encoding="utf-8")
    path = written(tmp_path, [ROWS["browsecomp"]], ".csv")
    env = small_env(world=None, questions=str(path), corpus=str(corpus), dialect="browse")
    assert env.reset(seed=0)[0] == "Who painted, née Ā?"
    while actions := env.oracle.optimal_actions(env.get_state()):
        reward = env.step(actions[0])[1]
    assert reward == 1.0
