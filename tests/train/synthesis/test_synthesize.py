"""``creditflow data synthesize``: the same bytes whatever happens in between, and outputs that are what they should be."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.shared_data import ROOT
from helpers.worlds.film_corpus import film_passages, write_films
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.retrieval.corpus import MemoryCorpus
from creditflow.envs.wikisearch.retrieval.documents import read_document
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_passages
from creditflow.envs.wikisearch.retrieval.opening import open_corpus
from creditflow.train.cli import main
from creditflow.train.synthesis.build import graph_of, provenance_of, synthesize
from creditflow.train.synthesis.settings import SynthesisSettings


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_films(tmp_path / "films.jsonl")


def command(corpus: Path, out: Path, *more: str) -> list[str]:
    return ["data", "synthesize", "--corpus", str(corpus), "--limit", "20", "--seed", "3", "--out", str(out), *more]


def test_questions_are_answered_by_their_own_passages_and_have_graphs(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    assert main(command(corpus, out)) == 0
    passages = {row["id"]: row["contents"] for row in film_passages()}
    questions = read_questions(out)
    assert len(questions) == 20
    assert len({question.text for question in questions}) == 20
    assert {question.kind[:-1] for question in questions} == {"walk", "inject", "obfuscate"}
    for question in questions:
        assert question.answer_node in {entity.name for entity in question.entities} & set(question.answers)
        assert len(question.supporting) >= 2
        assert not any(normalized_phrase(answer, question.text) for answer in question.answers)
        for step, (subject, _, obj) in zip(question.steps, question.edges, strict=True):
            assert all(normalized_phrase(name, passages[step.passage_id]) for name in (subject, obj))
            assert step.answer in (subject, obj)
        assert question.steps[-1].answer in question.answers


def test_the_provenance_counts_every_candidate(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "q.jsonl"
    assert main(command(corpus, out, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    header, *lines = (json.loads(line) for line in provenance_of(out).read_text().splitlines())
    assert header["settings"]["seed"] == 3
    assert [line["question"] for line in lines if line["question"]] == [
        json.loads(line) for line in out.read_text().splitlines()
    ]
    assert all((line["reason"] == "") == (line["question"] is not None) for line in lines)
    rejected = sum(count for reasons in document["rejected"].values() for count in reasons.values())
    assert rejected + document["questions"] == document["candidates"] == lines[-1]["candidate"] + 1
    assert sum(document["kinds"].values()) == document["questions"] == 20
    assert document["difficulty"]["questions"] == 20
    assert document["difficulty"]["expert"] == 1.0


def test_bytes_depend_neither_on_hashes_nor_on_the_process(corpus: Path, tmp_path: Path) -> None:
    first = tmp_path / "q.jsonl"
    assert main(command(corpus, first)) == 0
    other = tmp_path / "other.jsonl"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": "77"}
    subprocess.run([sys.executable, "-m", "creditflow.train", *command(corpus, other)], env=environment, check=True)
    assert other.read_bytes() == first.read_bytes()
    assert provenance_of(other).read_bytes() == provenance_of(first).read_bytes()


def test_another_seed_gives_other_questions_and_a_longer_list_begins_with_the_shorter(
    corpus: Path, tmp_path: Path
) -> None:
    texts = {}
    for name, more in {"a": [], "b": ["--seed", "4"], "c": ["--limit", "25"]}.items():
        assert main([*command(corpus, tmp_path / name), *more]) == 0
        texts[name] = [question.text for question in read_questions(tmp_path / name)]
    assert texts["a"] == texts["c"][:20]
    assert texts["a"] != texts["b"]


@pytest.mark.parametrize("name", ["q.jsonl", "q.jsonl.gz"])
def test_an_interrupted_synthesis_is_resumed_to_the_same_bytes(name: str, corpus: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / name, tmp_path / f"again-{name}"
    assert main(command(corpus, whole)) == 0
    lines = (
        gzip.decompress(provenance_of(whole).read_bytes()) if name.endswith("gz") else provenance_of(whole).read_bytes()
    ).splitlines(True)
    partial = out.with_name(f"{out.name}.partial")
    for kept in (0, 1, 2, len(lines) // 2, len(lines)):
        partial.write_bytes(b"".join(lines[:kept]) + (lines[kept][:40] if kept < len(lines) else b""))
        assert main(command(corpus, out)) == 2  # neither --resume nor --force
        assert main(command(corpus, out, "--resume")) == 0
        assert out.read_bytes() == whole.read_bytes()
        assert provenance_of(out).read_bytes() == provenance_of(whole).read_bytes()
        assert not partial.exists()
        assert main(command(corpus, out, "--resume")) == 0  # finished: nothing is left to do
        out.unlink()
        provenance_of(out).unlink()


def test_another_corpus_or_seed_is_not_resumed(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "q.jsonl"
    assert main(command(corpus, out)) == 0
    assert main(command(corpus, out, "--resume", "--seed", "4")) == 3
    assert "seed: stored 3, requested 4" in capsys.readouterr().err
    other = write_films(corpus.with_name("other.jsonl"), seed=1)
    assert main(command(other, out, "--resume")) == 3
    assert "corpus: stored" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ['{"candidate": 0}', "[]", '{"candidate": "x", "question": null, "recipe": "walk", "reason": ""}', "7"]
)
def test_a_damaged_partial_file_is_named(
    line: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "q.jsonl"
    assert main(command(corpus, out)) == 0
    header = provenance_of(out).read_text().splitlines(True)[0]
    out.with_name("q.jsonl.partial").write_text(f"{header}{line}\n")
    assert main(command(corpus, out, "--resume")) == 3
    assert "line 2: not a candidate of a synthesis" in capsys.readouterr().err
    out.with_name("q.jsonl.partial").write_text('{"format": "other"}\n')
    assert main(command(corpus, out, "--resume")) == 3
    assert "not the beginning of a synthesis" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--limit", "0"], "expected a whole number"),
        (["--hops", "1-2"], "hops are from 2 to 4"),
        (["--hops", "3-2"], "hops are from 2 to 4"),
        (["--hops", "two"], "expected a number or two"),
        (["--recipe", "wlk"], "did you mean 'walk'"),
        (["--recipe", "walk,walk"], "recipes must be distinct and non-empty"),
        (["--writer", "gpt"], "a writer is templates or openai:URL#MODEL"),
        (["--writer", "openai:http://x"], "openai:URL#MODEL"),
        (["--timeout", "nan"], "expected seconds"),
        (["--out", "q.csv"], "name it .jsonl"),
        (["--out", "q.csv.gz"], "name it .jsonl"),
    ],
)
def test_wrong_arguments_are_refused(
    more: list[str], message: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([*command(corpus, tmp_path / "q.jsonl"), *more])
    except SystemExit as exit_:
        code = int(str(exit_.code))
    assert code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "q.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidate": 10**13}, "numbers of candidates ascend, and end with the last attempt"),
        ({"candidate": -1}, "numbers of candidates ascend"),
        ({"candidate": True}, "numbers of candidates ascend"),
        ({"recipe": "other"}, "recipes take turns"),
        ({"recipe": []}, "recipes take turns"),
        ({"question": None, "reason": None}, "a question, or the reason"),
        ({"question": None, "reason": ""}, "a question, or the reason"),
        ({"reason": "shortcut"}, "a question, or the reason"),
        ({"question": 5}, "expected a question"),
    ],
)
def test_a_candidate_that_no_synthesis_writes_is_named(
    change: dict[str, Any], message: str, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "q.jsonl"
    assert main(command(corpus, out)) == 0
    header, *lines = provenance_of(out).read_text().splitlines(True)
    kept = next(line for line in map(json.loads, lines) if line["question"])
    partial = out.with_name("q.jsonl.partial")
    for line in [kept | change, kept | {"question": kept["question"] | {"edges": [], "steps": []}}]:
        partial.write_text(f"{header}{json.dumps(line)}\n")
        assert main(command(corpus, out, "--resume")) == 3
        said = capsys.readouterr().err
        assert "line 2: not a candidate of a synthesis" in said
        assert message in said or "a synthesised question has links" in said


HOSTILE: dict[str, bytes] = {
    "bad UTF-8": b'{"id": "a", "contents": "A\\nb\xff"}\n',
    "no JSON": b"title,text\n",
    "no text": b'{"id": "a"}\n',
    "an id twice": b'{"id": "a", "contents": "A\\nb"}\n' * 2,
    "empty": b"",
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_damaged_corpus_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_bytes(HOSTILE[name])
    assert main(command(corpus, tmp_path / "q.jsonl")) == 3
    assert str(corpus) in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl"}


def test_a_corpus_without_statements_says_why_there_are_no_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "a", "contents": "A\\n"}\n{"id": "b", "contents": "A\\nb"}\n')
    assert main(command(corpus, tmp_path / "q.jsonl")) == 3
    assert (
        "none of 2000 candidates became a question (dead end 2000); the corpus has 0 statements"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "q.jsonl").exists()


def engine(rows: list[dict[str, Any]]) -> LocalRetriever:
    return index_passages(MemoryCorpus(read_document(row) for row in rows))


def test_two_pages_with_one_title_and_a_page_in_several_passages_do_no_harm(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = list(film_passages())
    twin = rows[0]["contents"].partition("\n")[0]
    rows += [
        {"id": "twin", "contents": f"{twin}\nAnother thing.", "page": "other"},
        {"id": "more", "contents": f"{twin}\n{twin} was praised."},
        {"id": "none", "contents": "\n"},
        {"id": "html", "contents": "<b>Bold</b>\n<p>Bold is a <a href='x'>film</a> directed by [[Ada Aamodt]].</p>"},
        {"id": "huge", "contents": "Huge\nHuge is a film directed by " + "Ada " * 100_000},
        {"id": "sur", "contents": "\ud800\n\ud800 is a film directed by Ada Aamodt."},
    ]
    found, _ = synthesize(engine(rows), SynthesisSettings(limit=15, seed=1), tmp_path / "q.jsonl")
    assert len(found.questions) == 15
    assert not any(normalized_phrase(twin, question.text) for question in found.questions)


def test_a_range_of_a_larger_corpus_is_read_and_any_order_of_its_statements_is_its_own() -> None:
    retriever = engine(list(film_passages(60)))
    part = graph_of(retriever, SynthesisSettings(limit=1, seed=2, max_passages=30))
    assert len(part.mention_starts) == 31
    assert {statement.row for statement in part.statements} <= set(range(part.first_row, part.first_row + 30))
    whole = graph_of(retriever, SynthesisSettings(limit=1))
    for number, node in enumerate(whole.nodes):
        expected = [
            row for row in range(len(retriever.corpus))
            if any(normalized_phrase(form, retriever.corpus.passage(row).contents) for form in node.forms)
        ]  # fmt: skip
        assert whole.rows_with(number).tolist() == expected


@settings(max_examples=25)
@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=120)), min_size=1, max_size=12))
def test_any_corpus_is_read(rows: list[tuple[str, str]]) -> None:
    retriever = engine([{"id": str(i), "title": title, "text": text} for i, (title, text) in enumerate(rows)])
    graph = graph_of(retriever, SynthesisSettings(limit=1))
    assert len(graph.mention_starts) == len(rows) + 1
    assert np.all(np.diff(graph.mention_starts) >= 1)  # at least the page itself


def test_an_index_folder_gives_the_questions_of_its_passages(corpus: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert main(["serve-search", "--corpus", str(corpus), "--index", str(index), "--build-only"]) == 0
    for name, place in {"a.jsonl": corpus, "b.jsonl": index}.items():
        assert main(command(place, tmp_path / name)) == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_too_few_questions_are_written_and_told(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "q.jsonl"
    assert main([*command(corpus, out), "--limit", "500", "--attempts", "3"]) == 0
    told = capsys.readouterr().out
    count = len(read_questions(out))
    assert 0 < count < 500
    assert f"{count} questions of 500 wanted, from 1500 candidates" in told
    with pytest.raises(DataError, match="none of 1 candidates"):
        synthesize(open_corpus(str(corpus)), SynthesisSettings(limit=1, attempts=1, hops=(4, 4)), tmp_path / "n.jsonl")
