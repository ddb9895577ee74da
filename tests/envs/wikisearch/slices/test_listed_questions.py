"""Questions of published sets: one id for one question, in every file format, order and corpus, or an error."""

from __future__ import annotations

import gzip
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hostile_files import worse_file
from helpers.panels.manifests import slice_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, CreditflowError, DataError
from creditflow.envs.tasks import PanelRow, load_panel
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.questions import question_task
from creditflow.envs.wikisearch.slices import DATA_SETS, SLICES, file_of, find_questions, released_question

AUTHORS: dict[str, dict[str, Any]] = {
    "hotpotqa": {
        "_id": "a1", "question": "Who  wrote Ash?", "answer": "Bo Lee", "type": "bridge", "level": "hard",
        "supporting_facts": [["Bo Lee", 0], ["Ash", 2]], "context": [["Ash", ["Ash is a novel."]]],
    },
    "2wiki": {
        "_id": "b1", "question": "Which is older, Ash or Elm?", "answer": "Ash", "type": "comparison",
        "evidences": [["Ash", "date", "1900"], ["Elm", "date", "1950"]], "supporting_facts": [["Ash", 0], ["Elm", 0]],
    },
    "musique": {
        "id": "2hop__7_8", "question": "What is the capital of Hill's county?", "answer": "Tor", "answer_aliases": ["City of Tor", "Tor"],
        "paragraphs": [{"idx": 0, "title": "Hill", "paragraph_text": ""}, {"idx": 4, "title": "Ash County", "paragraph_text": ""}],
        "question_decomposition": [
            {"id": 7, "question": "Hill >> county", "answer": "Ash County", "paragraph_support_idx": 0},
            {"id": 8, "question": "#1 >> capital", "answer": "Tor", "paragraph_support_idx": 4},
        ],
    },
    **{name: {"question": f"when was {name} made", "answer": ["1900", "the year 1900"]} for name in DATA_SETS[3:]},
}  # fmt: skip
REPACKED: dict[str, dict[str, Any]] = {
    "hotpotqa": {
        "id": "a1", "question": "Who wrote Ash?", "answers": ["Bo Lee"], "type": "bridge", "split": "dev",
        "supporting_facts": {"title": ["Ash", "Bo Lee"], "sent_id": [2, 0]}, "gold_passage_ids": ["x", "y"],
    },
    "2wiki": {
        "id": "b1", "question": "Which is older, Ash or Elm?", "answers": ["Ash"], "type": "comparison", "split": "dev",
        "evidences": [["Ash", "date", "1900"], ["Elm", "date", "1950"]], "supporting_facts": [["Elm", 0], ["Ash", 0]],
        "passage_ids": ["x"], "gold_passage_ids": ["x"],
    },
    "musique": {
        "id": "2hop__7_8", "question": "What is the capital of Hill's county?", "answers": ["City of Tor", "Tor"], "type": "2hop",
        "decomposition": [
            {"sub_question": "Hill >> county", "sub_answer": "Ash County", "support_passage_id": "x", "support_title": "Hill"},
            {"sub_question": "#1 >> capital", "sub_answer": "Tor", "support_passage_id": "y", "support_title": "Ash County"},
        ], "gold_passage_ids": ["x", "y"], "split": "dev",
    },
    **{
        name: {"id": f"{name}_0", "question": f"when was {name} made ", "golden_answers": ["the year 1900", "1900"]}
        for name in DATA_SETS[3:]
    },
}  # fmt: skip


def task_id(data_set: str, row: Any) -> str:
    return question_task(released_question(data_set, row)).task_id


def write(folder: Path, rows: dict[str, dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, row in rows.items():
        (folder / f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def rows(tmp_path: Path) -> list[PanelRow]:
    return list(slice_rows(write(tmp_path / "repacked", REPACKED)))


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_authors_and_repacked_rows_are_the_same_question(data_set: str) -> None:
    assert task_id(data_set, AUTHORS[data_set]) == task_id(data_set, REPACKED[data_set])


CHANGES: dict[str, Any] = {
    "question": "Another one?", "answers": ["other"], "type": "other", "evidences": [["Ash", "date", "1901"]], "id": "3hop1__7_8",
    "supporting_facts": [["Oak", 0]],
}  # fmt: skip


@given(data_set=st.sampled_from(DATA_SETS), key=st.sampled_from(sorted(CHANGES)))
def test_what_an_agent_or_a_scheme_reads_changes_the_id(data_set: str, key: str) -> None:
    row = REPACKED[data_set]
    if key not in row or (data_set == "musique" and key == "type") or (data_set in DATA_SETS[3:] and key == "id"):
        return  # the type of MuSiQue is in its id; ids of the others differ between copies
    changed = {**row, key: CHANGES[key]}
    assert task_id(data_set, changed) != task_id(data_set, row)


@settings(max_examples=30)
@given(order=st.permutations(range(6)), listed=st.booleans(), packed=st.booleans())
def test_the_order_and_format_of_a_file_do_not_matter(
    order: list[int], listed: bool, packed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("questions")
    made = [{"id": f"q{number}", "question": f"Who is {number}?", "answers": [f"A{number}"]} for number in range(6)]
    write(folder, REPACKED)
    (folder / "frames.jsonl").write_text("\n".join(map(json.dumps, made)), encoding="utf-8")
    rows = [row for row in slice_rows(folder) if row.strata["data_set"] == "frames"]
    shuffled = [made[i] for i in order]
    text = json.dumps(shuffled, indent=1) if listed else "\r\n".join(map(json.dumps, shuffled))
    path = folder / f"mine{'.json' if listed else '.jsonl'}{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert list(find_questions(rows, path)) == [row.task_id for row in rows]


def test_a_folder_has_the_files_of_several_sets(rows: list[PanelRow], tmp_path: Path) -> None:
    folder = write(tmp_path / "authors", AUTHORS)
    assert list(find_questions(rows, folder)) == [row.task_id for row in rows]
    with pytest.raises(ConfigError, match="a folder with a file for each"):
        find_questions(rows, folder / "frames.jsonl")
    (folder / "frames.json").write_text("[]")
    with pytest.raises(DataError, match="expected one file frames"):
        find_questions(rows, folder)
    (folder / "frames.json").unlink()
    (folder / "frames.jsonl").unlink()
    with pytest.raises(DataError, match="found none"):
        find_questions(rows, folder)
    assert file_of(folder / "popqa.jsonl", "popqa") == folder / "popqa.jsonl"


@pytest.mark.parametrize("change", [{"question": "?"}, {"golden_answers": ["1901"]}, {"golden_answers": []}])
def test_a_missing_or_changed_question_is_an_error(
    change: dict[str, Any], rows: list[PanelRow], tmp_path: Path
) -> None:
    wanted = [row for row in rows if row.strata["data_set"] == "frames"]
    folder = write(tmp_path / "mine", {"frames": {**REPACKED["frames"], **change}})
    with pytest.raises(DataError, match=r"frames\.jsonl.*(1 of 1 questions|needs an answer)"):
        find_questions(wanted, folder / "frames.jsonl")


def test_damaged_files_are_refused_or_have_the_questions(rows: list[PanelRow], tmp_path: Path) -> None:
    good = (write(tmp_path / "mine", AUTHORS) / "musique.jsonl").read_bytes()
    wanted = [row for row in rows if row.strata["data_set"] == "musique"]
    path = tmp_path / "worse.jsonl"
    for number in range(150):
        path.write_bytes(worse_file(good, np.random.default_rng([17, number])))
        try:
            assert list(find_questions(wanted, path)) == [wanted[0].task_id]
        except CreditflowError as error:
            assert str(path) in str(error)


# -- arguments of the environment, the check of plain sets ---------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"corpus": "x"}, "pass their file"),
        ({"questions": "x"}, "a corpus or a retriever"),
        ({"questions": "x", "corpus": "x", "retriever": {}}, "only one of them"),
    ],
)
def test_the_panel_needs_files(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    passages = tmp_path / "passages.jsonl"
    passages.write_text(json.dumps({"id": "1", "contents": '"Ash"\nAsh is a novel.'}) + "\n")
    arguments = {key: str(passages) if key == "corpus" else value for key, value in arguments.items()}
    with pytest.raises(ConfigError, match=message):
        WikiSearchEnv(panel="slices-v1:frames-test", **arguments)
    for more, expected in (
        ({"file_format": "plain"}, "has a fixed format"),
        ({"panel": "slices-v1:frame-test"}, "split"),
    ):
        options: dict[str, Any] = {
            "panel": "slices-v1:frames-test",
            "questions": str(passages),
            "corpus": str(passages),
            **more,
        }
        with pytest.raises(ConfigError, match=expected):
            WikiSearchEnv(**options)
    with pytest.raises(DataError, match="681 of 681 questions"):
        WikiSearchEnv(panel="slices-v1:frames-test", questions=str(passages), corpus=str(passages))


def test_known_ids() -> None:
    assert len(load_panel("wikisearch", SLICES).split("hotpotqa-dev")) == 153
    assert task_id("2wiki", REPACKED["2wiki"]) == "wikisearch1:5e36f28ae28473b84c915b85a7b1c113"
    assert task_id("frames", REPACKED["frames"]) == "wikisearch1:3367d03d9e146677a3799df8224611b1"
    assert task_id("musique", REPACKED["musique"]) == "wikisearch1:825319d3a40f2bc31774a6cebb093a8e"
    data = (files("creditflow.assets") / "panels" / "wikisearch" / "slices-v1.json.gz").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "b6e7d8abc79ab192e6f7d0b14b99b41bb760c72c4e9edd46a5a0e1f5dcd3b2d5"
