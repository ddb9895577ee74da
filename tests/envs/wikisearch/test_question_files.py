"""Question files of many sources are parsed to one type; malformed rows are named."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.shared_data import shared_file

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.wikisearch.question_files import read_question, read_questions
from creditflow.envs.wikisearch.questions import Question, question_task

NAMES = ["2wiki", "musique", "hotpotqa", "webshaper", "nq_open", "popqa", "triviaqa", "bamboogle", "frames"]


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(shared_file(f"data/search/{name}.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", [*NAMES, "sailorfog_sample"])
def test_every_row_of_a_real_file_is_parsed(name: str) -> None:
    found = read_questions(shared_file(f"data/search/{name}.jsonl.gz"))
    given_rows = rows(name)
    assert [question.id for question in found] == [str(row["id"]) for row in given_rows]
    assert all(set(question.answers) == set(row["answers"]) for question, row in zip(found, given_rows, strict=True))
    assert len({question_task(question).task_id for question in found}) == len(found)
    assert all(Question.from_json(json.loads(json.dumps(q.to_json()))) == q for q in found)


@pytest.mark.parametrize("name", ["2wiki", "musique"])
def test_the_evidence_graph_is_the_one_in_the_row(name: str) -> None:
    for question, row in zip(read_questions(shared_file(f"data/search/{name}.jsonl.gz")), rows(name), strict=True):
        graph = row["er_graph"]
        assert {entity.name for entity in question.entities} == set(graph["nodes"])
        assert {(s, o) for s, _, o in question.edges} == {(s, o) for s, _, o in graph["edges"]}
        assert question.answer_node == (graph["answer_node"] or "")
        assert set(question.supporting) == set(row["gold_passage_ids"])


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"question": "q", "answers": [1989, "x", "", None]}, ("1989", "x")), ({"question": "q", "answer": "a"}, ("a",)), ({"question": "q", "golden_answers": ["a", "b", "a"]}, ("a", "b")),
        ({"question": "q", "answer": {"value": "V", "aliases": ["W"]}}, ("V", "W")), ({"Question": "q", "answer": 7}, ("7",)),
        ({"question": "q", "possible_answers": '["x", "y"]', "subj": "s", "prop": "p", "obj": "x"}, ("x", "y")),
    ],
)  # fmt: skip
def test_answers_are_found_under_their_usual_names(row: dict[str, Any], answers: tuple[str, ...]) -> None:
    assert read_question(row).answers == answers


def test_official_musique_rows_are_parsed() -> None:
    row = {
        "id": "2hop__1_2", "question": "Capital of where X is?", "answer": "C", "answer_aliases": ["Cee"],
        "paragraphs": [{"idx": 0, "title": "X page"}, {"idx": 5, "title": "Land"}],
        "question_decomposition": [
            {"id": 1, "question": "X >> country", "answer": "Land", "paragraph_support_idx": 0},
            {"id": 2, "question": "#1 >> capital", "answer": "C", "paragraph_support_idx": 5},
        ],
    }  # fmt: skip
    question = read_question(row)
    assert question.edges == (("X page", "country", "Land"), ("Land", "capital", "C"))
    assert question.supporting == ("X page", "Land")
    assert (question.answers, question.answer_node) == (("C", "Cee"), "C")


def test_joined_webshaper_triples_are_split() -> None:
    row = {
        "question": "q",
        "answers": ["55"],
        "formalization": [["V@X", "is & in", "C@big_one & ?"], ["V@X", "has", "V@Y"]],
    }
    assert read_question(row).edges == (("V@X", "is", "big one"), ("V@X", "in", "55"), ("V@X", "has", "V@Y"))


def test_webshaper_rows_of_other_lengths_relate_every_term_to_their_subject() -> None:
    parts = [["V@X", "beat", "C@A", "in", "C@1910"], ["V@X", "was a brother"], ["V@Y", "V@Z", "met", "?"]]
    found = read_question({"question": "q", "answers": ["7"], "formalization": parts}).edges
    assert found == (("V@X", "beat", "A"), ("V@X", "in", "1910"), ("V@Y", "", "V@Z"), ("V@Y", "met", "7"))


@pytest.mark.parametrize(
    "row",
    [
        {}, {"question": "q"}, {"question": 3, "answer": "a"}, {"question": " ", "answer": "a"}, {"question": "q", "answers": []},
        {"question": "q", "answer": "a", "evidences": [["x"]]}, {"question": "q", "answer": "a", "evidences": 4},
        {"question": "q", "answer": "a", "formalization": [[1]]}, {"question": "q", "answer": "a", "decomposition": [3]},
        {"question": "q", "answer": "a", "triple": [1, 2]}, [1], None, "text", {"version": 9, "steps": []},
    ],
)  # fmt: skip
def test_malformed_rows_are_data_errors(row: Any) -> None:
    with pytest.raises(DataError):
        read_question(row)


def test_a_malformed_row_is_named_and_a_list_is_parsed_too(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text(json.dumps([{"question": "q", "answer": "a"}, {"question": "r"}]), encoding="utf-8")
    with pytest.raises(DataError, match="row 2"):
        read_questions(path)
    path.write_text(json.dumps([{"question": "q", "answer": "a"}]), encoding="utf-8")
    assert read_questions(path)[0].id == "1"


def test_unknown_formats_are_errors_with_the_near_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'hotpotqa'"):
        read_questions(tmp_path / "q", file_format="hotpot_qa")


def test_golden_answers_of_which_nothing_would_be_left_are_named(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    rows = [
        {"id": f"q{i}", "question": "Which?", "golden_answers": [text]}
        for i, text in enumerate(["A", "The Who", "!!!"])
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")
    with pytest.warns(UserWarning, match=r"2 golden answers .*'A' of question 'q0', '!!!' of question 'q2'"):
        assert len(read_questions(path)) == 3
