"""Passage files and question files of many data sets, transcripts of Search-R1, index folders of passages.

Index folders are damaged with the old checksums or with new ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.protocol.transcript import read_transcript
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.store import open_engine, write_store
from fuzz.mutate_bytes import mutate_bytes
from fuzz.mutate_data import mutate_lines
from fuzz.samples import bomb
from fuzz.sealed import damaged, mutate_sealed, unpack
from fuzz.target import MismatchError, Target

CORPUS = "".join(
    json.dumps(row) + "\n"
    for row in (
        {"id": "0", "contents": '"Nile"\nThe Nile is long.'}, {"id": "1", "contents": '"Nile"\nIt ends at the sea.'},
        {"id": "2", "title": "Rhine", "text": "The Rhine is not."}, {"id": 3, "contents": "Elbe\nSo is the Elbe."},
    )
).encode()  # fmt: skip
ROWS = (
    {"id": "q", "question": "Longest river?", "answer": "Nile", "type": "bridge", "context": [["Nile", ["It is long."]]],
     "supporting_facts": [["Nile", 0]], "evidences": [["Nile", "length", "6650"], ["Nile", "in", "Egypt"]]},
    {"_id": "h", "question": "Which?", "answer": "Rhine", "supporting_facts": {"title": ["Rhine"], "sent_id": [0]},
     "context": {"title": ["Rhine"], "sentences": [["Not long."]]}},
    {"id": "2hop__1", "question": "Where?", "answer": "Egypt", "answer_aliases": ["Misr"], "answerable": True,
     "paragraphs": [{"idx": 0, "title": "Nile", "paragraph_text": "x", "is_supporting": True}],
     "question_decomposition": [{"id": 1, "question": "Nile >> in", "answer": "Egypt", "paragraph_support_idx": 0},
                                {"id": 2, "question": "#1 >> capital", "answer": "Cairo", "paragraph_support_idx": 0}]},
    {"id": 5, "subj": "Nile", "prop": "in", "obj": "Egypt", "question": "Where is it?", "possible_answers": '["Egypt"]'},
    {"question": "Who?", "answer": "Ann", "formalization": [["V@X", "born in", "C@Cairo"], ["?", "knows", "V@X"]]},
    {"question": "Plain?", "golden_answers": ["yes", "no"]},
    {"question": "Trivia?", "answer": {"value": "x", "aliases": ["y", "z"]}},
)  # fmt: skip
DOCS = "Doc 1(Title: Nile) It is long.\nDoc 2(Title: Rhine) It is not."
RESPONSE = (
    f"<think>so</think> <search>Nile</search>\n\n<information>{DOCS}</information>\n\n"
    f"Once more. <search>river Nile</search>\n\n<information>{DOCS}</information>\n\n<answer>The Nile</answer>"
)


def _read_corpus(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        open_engine.cache_clear()
        engine = open_engine(corpus=str(path))
        hits = engine.search(["the nile", ""], 3)
        engine.visit([hit.passage.page for hit in hits[0]] + ["nowhere"])

    return read


def _read_questions(name: str) -> Callable[[bytes, Path], None]:
    """Return a reader that opens an environment over the questions, and resets it by a task's content to the same task."""

    def read(data: bytes, folder: Path) -> None:
        path, corpus = folder / name, folder / "passages.jsonl"
        path.write_bytes(data)
        corpus.write_bytes(CORPUS)
        open_engine.cache_clear()
        env = WikiSearchEnv(questions=str(path), corpus=str(corpus))
        env.reset(seed=1)
        env.step("search: nile")
        content, task_id = env.task.content, env.task.task_id
        state = env.get_state()
        if env.reset(options={"task": json.loads(json.dumps(dict(content)))})[1]["task_id"] != task_id:
            raise MismatchError("a question and its own content are different tasks")
        env.set_state(state)

    return read


def _read_response(data: bytes, _: Path) -> None:
    read_transcript(data.decode("utf-8", "replace"))


def _lines(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


_HOSTILE = (
    b"[" * 200_000,
    b"9" * 5000,
    b"\xff\xfe\n",
    b"",
    b"{}",
    b"null\n",
    b'{"id":' * 50_000,
    b'{"question":"a","answers":["x"],"id":' + b"9" * 5000 + b"}",
)


def _packed_traps() -> Sequence[bytes]:
    whole = gzip.compress(CORPUS)
    return [
        bomb(b"", b"\n" * 1000, 1000),
        bomb(b'{"id":"', b"a" * 1000, 1000),
        whole[:-6],
        whole[:30] + b"\xff" * 20 + whole[50:],
        b"",
    ]


PASSAGES = [
    Passage(
        str(i),
        f"Page {i // 2}",
        f"Text {i} about rivers and {'towns' if i % 2 else 'hills'} of number {i}.",
        str(i // 2),
    )
    for i in range(30)
]
_BUILT: dict[str, Path] = {}


def _build_index(engine: str) -> Callable[[Path], Sequence[bytes]]:
    def make(place: Path) -> Sequence[bytes]:
        write_store(place / "index", PASSAGES, engine)
        _BUILT[engine] = place / "index"
        return [unpack(place / "index")]

    return make


def _read_index(engine: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        damaged(_BUILT[engine], data, folder / "index")
        open_engine.cache_clear()
        found = open_engine(index=str(folder / "index"))
        hits = found.search(["rivers and hills", "number 7", ""], 5)
        found.visit([hit.passage.page for hit in hits[0]] + ["Page 3", "nowhere"])

    return read


TARGETS = (
    Target(
        name="wiki/corpus", read=_read_corpus("corpus.jsonl"), seeds=lambda _: [CORPUS], mutate=mutate_lines, cases=120,
        place="corpus.jsonl", traps=lambda: _HOSTILE,
    ),
    Target(
        name="wiki/corpus-gz", read=_read_corpus("corpus.jsonl.gz"), seeds=lambda _: [gzip.compress(CORPUS)],
        mutate=mutate_bytes, cases=60, place="corpus.jsonl.gz", traps=_packed_traps, seconds=5.0, megabytes=512,
    ),
    Target(
        name="wiki/questions", read=_read_questions("questions.jsonl"), seeds=lambda _: [_lines(row) for row in ROWS],
        mutate=mutate_lines, cases=200, place="questions.jsonl", traps=lambda: _HOSTILE,
    ),
    Target(
        name="wiki/questions-gz", read=_read_questions("questions.jsonl.gz"), mutate=mutate_bytes, cases=50,
        seeds=lambda _: [gzip.compress(_lines(*ROWS))], place="questions.jsonl.gz", traps=_packed_traps, seconds=5.0,
        megabytes=512,
    ),
    Target(
        name="wiki/transcripts", read=_read_response, seeds=lambda _: [RESPONSE.encode()], mutate=mutate_bytes, cases=150,
        traps=lambda: [b"<search>" * 30_000, b"<information>" * 30_000, b"Doc 1(Title: " * 30_000, b"<think>" * 30_000,
                       (RESPONSE * 200).encode()],
    ),
    Target(
        name="indexes/bm25", read=_read_index("bm25"), seeds=_build_index("bm25"), mutate=mutate_sealed, cases=120, place="index"
    ),
)  # fmt: skip
