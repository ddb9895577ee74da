"""Checks that hold for every engine, whatever ranks the passages; the tests of each engine call them."""

from __future__ import annotations

import gzip
import json
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.hostile_files import damaged_in_turn
from helpers.shared_data import shared_files

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.retrieval.base import Hit, MemoryCorpus, Passage
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_passages
from creditflow.envs.wikisearch.retrieval.store import open_store
from creditflow.envs.wikisearch.world.articles import passages
from creditflow.envs.wikisearch.world.graph import make_world

PASSAGES = [
    *passages(make_world(5, 200)),
    Passage("z", "東京 \u2028", "naïve\n\x85 text\\", "東京 \u2028"),
    Passage("half", "\ud800 half", "a lone surrogate, İstanbul 😀", "\ud800 half"),
    Passage("", "", " ", ""),
    Passage("ü/1", '"quoted" title', "about market charters", "another page"),
]

HOSTILE = [
    "",
    " \t\n\x00\x0b",
    'contents:"market AND (charter* OR NOT ~"',
    "row:[0 TO *] -id:z +title:^9 \\ / && || ! { } ? *",
    "market\x00charter",
    "\ud800 market \udfff",
    "😀 naïve 東京",
    "' \" ` ; -- <information> market </information> %s {0}",
    "the of and a",
    "x" * 100_000,
]


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


def check_corpus(engine: LocalRetriever) -> None:
    """Passages, pages and digest are those of the same passages in memory."""
    memory = index_passages(MemoryCorpus(PASSAGES))
    assert engine.digest == memory.digest
    assert len(engine.corpus) == len(PASSAGES)
    names = [
        PASSAGES[0].page,
        PASSAGES[5].id,
        PASSAGES[9].title,
        "z",
        "half",
        "",
        "ü/1",
        "another page",
        "nobody",
        "\udfff",
    ]
    assert engine.visit(names, "market charter") == memory.visit(names, "market charter")
    assert engine.fetch(["z", "ü/1", "half"]) == [PASSAGES[-4], PASSAGES[-1], PASSAGES[-3]]


def check_search(engine: LocalRetriever) -> None:
    """Hits are sorted by score, at most k, equal for a query alone and in a batch, and contain the words of the query."""
    queries = [PASSAGES[0].title, "market charter", "who was born in a town?", "zzzz qqqq", PASSAGES[0].title]
    together = engine.search(queries, 7)
    assert together == [engine.search([query], 7)[0] for query in queries]
    assert together[0] == together[4]
    assert together[3] == []
    assert PASSAGES[0].title in [hit.passage.title for hit in together[0]]
    for hits in together:
        assert len(hits) <= 7
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert len(set(ids(hits))) == len(hits)
    assert ids(engine.search(["market charter"], 3)[0]) == ids(together[1])[:3]
    assert engine.search(["market"], 0) == [[]]
    assert engine.search([], 5) == []
    assert engine.search(["東京"], 3)[0][0].passage.id == "z"
    assert engine.search(["İstanbul"], 3)[0][0].passage.id == "half"


def check_hostile(engine: LocalRetriever) -> None:
    """Query syntax, control characters, lone surrogates and huge texts are words or nothing, never an error."""
    for query in HOSTILE:
        hits = engine.search([query], 5)[0]
        assert "market" not in query or any("market" in hit.passage.contents for hit in hits), query[:40]
    many = " ".join(f"{'word' * 24}{number}" for number in range(10_000)) + " charter"  # 1 MB, all words different
    assert "charter" in engine.search([many], 1)[0][0].passage.contents


def check_threads(engine: LocalRetriever) -> None:
    """Eight concurrent threads get the results of one."""
    queries = [passage.title for passage in PASSAGES[:120]]
    alone = engine.search(queries, 5)
    found: list[list[list[Hit]]] = [[] for _ in range(8)]

    def run(number: int) -> None:
        found[number] = [engine.search([query], 5)[0] for query in queries]

    workers = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(each == alone for each in found)


CHECKS = [check_corpus, check_search, check_hostile, check_threads]
HARMS = ["flip", "cut", "gone", "empty"]


def check_damage(folder: Path, copy: Path, harm: str) -> None:
    """An index folder with a damaged file does not open; with the file restored it does."""
    shutil.copytree(folder, copy)
    names = [*json.loads((copy / "header.json").read_text())["files"], "header.json"]
    for _ in damaged_in_turn(copy, names, harm):
        with pytest.raises(DataError):
            open_store(copy)
    assert len(open_store(copy)[1]) == len(open_store(folder)[1])


def real_questions() -> list[dict[str, Any]]:
    """Multi-hop questions with the ids of their golden passages."""
    rows: list[dict[str, Any]] = []
    for name in ("2wiki", "musique", "hotpotqa"):
        for file in shared_files(f"data/search/{name}.jsonl.gz"):
            with gzip.open(file, "rt", encoding="utf-8") as lines:
                rows += [json.loads(line) for line in lines]
    return rows
