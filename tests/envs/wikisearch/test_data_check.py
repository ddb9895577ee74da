"""Question files compared with a slice: formats of the authors and of repacked files, changes, damage."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hostile_files import worse_file
from helpers.panels.manifests import list_questions, write_slices
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import CreditflowError
from creditflow.envs.manifests import KINDS
from creditflow.envs.wikisearch.data_check import (
    DATA_SETS,
    Listed,
    check_questions,
    load_slices,
)
from creditflow.train.cli import main

Row = dict[str, Any]


def musique(number: int) -> Row:
    steps = [
        {"question": f"Hill {number} >> county", "answer": "Ash"},
        {"question": "#1 >> capital", "answer": f"Town {number}"},
    ]
    return {
        "id": f"2hop__{number}",
        "question": f"What is the capital of the county of Hill {number}?",
        "answer": f"Town {number}",
        "answer_aliases": [f"City of {number}"],
        "question_decomposition": steps,
    }


def repacked(row: Row) -> Row:
    steps = [
        {
            "sub_question": one["question"],
            "sub_answer": one["answer"],
            "support_passage_id": "abc",
            "support_title": "Hill",
        }
        for one in row["question_decomposition"]
    ]
    answers = [*row["answer_aliases"], row["answer"]]
    kept = {"id": row["id"], "question": row["question"], "answers": answers, "decomposition": steps, "split": "dev"}
    return {**kept, "gold_passage_ids": ["abc"], "type": "2hop"}


COUNT = 5
ROWS = [musique(number) for number in range(COUNT)]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> list[Listed]:
    return list_questions(write(tmp_path_factory.mktemp("slice") / "dev.jsonl", [repacked(row) for row in ROWS]))


@pytest.mark.parametrize(
    "text",
    [
        lambda rows: json.dumps(rows, indent=1),
        lambda rows: "\r\n".join(json.dumps(row, ensure_ascii=False) for row in reversed(rows)),
        lambda rows: json.dumps([repacked(row) for row in rows] + [musique(99), {"id": 7}]),
    ],
    ids=["authors' list", "lines in another order", "repacked, among others"],
)
def test_formats_orders_and_other_questions_do_not_matter(
    text: Callable[[list[Row]], str], listed: list[Listed], tmp_path: Path
) -> None:
    path = tmp_path / "questions.json"
    path.write_text(text(ROWS), encoding="utf-8")
    report = check_questions("musique", path, listed)
    assert not report.differences
    assert report.parts[-1].counts["same"] == COUNT


CHANGES: dict[str, tuple[str, Callable[[Row], list[Row]]]] = {
    "same": ("same", lambda row: [row]),
    "text": ("changed", lambda row: [{**row, "question": "Why?"}]),
    "answers": ("changed", lambda row: [{**row, "answer_aliases": []}]),
    "steps": ("alike", lambda row: [{**row, "question_decomposition": row["question_decomposition"][1:]}]),
    "absent": ("missing", lambda _: []),
    "unanswered": ("unusable", lambda row: [{"id": row["id"], "question": row["question"]}]),
    "twice": ("unusable", lambda row: [row, row]),
}


@settings(max_examples=60)
@given(drawn=st.lists(st.sampled_from(sorted(CHANGES)), min_size=COUNT, max_size=COUNT))
def test_every_question_is_reported_once_with_its_kind(
    drawn: list[str], listed: list[Listed], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [row for old, change in zip(ROWS, drawn, strict=True) for row in CHANGES[change][1](old)]
    report = check_questions("musique", write(tmp_path_factory.mktemp("file") / "dev.jsonl", rows), listed)
    expected = {row["id"]: CHANGES[change][0] for row, change in zip(ROWS, drawn, strict=True)}
    assert {one.name: one.kind for one in report.differences} == {k: v for k, v in expected.items() if v != "same"}
    assert report.parts[-1].counts == {kind: list(expected.values()).count(kind) for kind in KINDS}
    assert report.complete == (set(drawn) == {"same"})


def test_damaged_files_are_reported_or_refused(listed: list[Listed], tmp_path: Path) -> None:
    path = write(tmp_path / "dev.jsonl", ROWS)
    good = path.read_bytes()
    for number in range(150):
        path.write_bytes(worse_file(good, np.random.default_rng([13, number])))
        try:
            assert check_questions("musique", path, listed).to_text()
        except CreditflowError as error:
            assert str(path) in str(error)


def test_the_manifest_survives_its_file(listed: list[Listed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_slices(tmp_path / "manifests" / "wikisearch" / "made-v1.json", {"musique": listed, "2wiki": listed[:1]})
    monkeypatch.setattr("creditflow.envs.manifests.files", lambda _: tmp_path)
    assert load_slices("made-v1") == {"musique": tuple(listed), "2wiki": tuple(listed[:1])}


def test_the_embedded_slices_do_not_change() -> None:
    data = (files("creditflow.assets") / "manifests" / "wikisearch" / "slices-v1.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "69545edea411fe678965f6b2c71e06b99c3eeddd4ab80b0ba7cbe4abdc381c31"
    slices = load_slices()
    assert {name: len(rows) for name, rows in slices.items()} == {"hotpotqa": 235, "2wiki": 565, "musique": 238}
    assert all(len({row.id for row in rows}) == len(rows) for rows in slices.values())


def test_the_command_refuses_wrong_names_and_says_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path / "dev.jsonl", ROWS))
    with pytest.raises(SystemExit, match="2"):
        main(["data", "check", "musiqe", path])
    assert "did you mean 'musique'" in capsys.readouterr().err
    assert main(["data", "check", "musique", path, "--only", "test"]) == 2
    assert "Known: dev, train" in capsys.readouterr().err
    assert main(["data", "check", "musique", str(tmp_path / "none")]) == 3
    assert main(["data", "check", "musique", path, "--only", "dev"]) == 1
    assert "157 missing" in capsys.readouterr().out


def test_every_data_set_has_a_slice() -> None:
    assert tuple(load_slices()) == DATA_SETS
