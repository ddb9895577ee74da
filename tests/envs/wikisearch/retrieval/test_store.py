"""Corpora and index folders: equal results from disk and memory; damage is detected when they are opened."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.retrieval.base import MemoryCorpus, Passage, read_passages
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_passages
from creditflow.envs.wikisearch.retrieval.store import open_corpus, open_store, write_store
from creditflow.envs.wikisearch.world.articles import passages
from creditflow.envs.wikisearch.world.graph import make_world

PASSAGES = [*passages(make_world(5, 200)), Passage("z", "東京 \u2028", "naïve\n\x85 text\\", "東京 \u2028")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_store(tmp_path / "index", PASSAGES)
    return tmp_path / "index"


def test_disk_and_memory_give_equal_results(folder: Path) -> None:
    disk, memory = LocalRetriever(*open_store(folder)), index_passages(MemoryCorpus(PASSAGES))
    assert disk.digest == memory.digest
    queries = ["Who was born in a town?", "naïve 東京", PASSAGES[0].title, "", "charter 1200"]
    assert disk.search(queries, 7) == memory.search(queries, 7)
    for name in (PASSAGES[0].page, PASSAGES[5].id, PASSAGES[9].title, "z", "nobody", ""):
        assert disk.visit([name], "market charter") == memory.visit([name], "market charter")
    assert disk.fetch([PASSAGES[3].id, "z"]) == [PASSAGES[3], PASSAGES[-1]]


@pytest.mark.parametrize("name", ["passages.jsonl", "passages.offsets", "by_id.i4", "header.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "empty"])
def test_damage_is_detected_when_the_folder_is_opened(folder: Path, name: str, damage: str) -> None:
    file = folder / name
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 0x40
    file.write_bytes(data if damage == "flip" else data[:-3] if damage == "cut" else b"")
    if damage == "gone":
        file.unlink()
    with pytest.raises(DataError):
        open_store(folder)


def test_an_unfinished_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> Iterator[Passage]:
        yield PASSAGES[0]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_store(tmp_path / "index", broken())
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_overwritten(folder: Path) -> None:
    with pytest.raises(DataError, match="exists"):
        write_store(folder, PASSAGES)


def test_ids_must_be_unique(tmp_path: Path) -> None:
    twice = [PASSAGES[0], PASSAGES[1], PASSAGES[0]]
    with pytest.raises(DataError, match="occurs twice"):
        MemoryCorpus(twice)
    with pytest.raises(DataError, match="occurs twice"):
        write_store(tmp_path / "index", twice)


@pytest.mark.parametrize("line", ['{"id": "1"}', "[1]", "{", '{"id": true, "contents": "a\\nb"}', '{"contents": 3}'])
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "0", "contents": "t\\nx"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        list(read_passages(path))


def test_a_passage_file_is_opened_as_a_corpus(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.write(json.dumps({"id": "0", "contents": '"Quoted"\nOne cat.'}) + "\n")
        out.write(json.dumps({"id": "1", "title": "Other", "text": "One dog."}) + "\n")
    found = open_corpus(str(path)).search(["dog"], 3)[0]
    assert [(hit.passage.id, hit.passage.title) for hit in found] == [("1", "Other")]
    assert open_corpus(str(path)).search(["quoted"], 3)[0][0].passage.title == "Quoted"


def test_a_long_page_is_cut_to_the_passages_that_match_the_goal() -> None:
    page = [Passage(f"p{i}", "Page", f"about number{i}", "Page") for i in range(9)]
    engine = index_passages(MemoryCorpus(page))
    found = engine.visit(["Page"], "number7 number8")[0]
    assert found is not None
    assert [passage.id for passage in found] == ["p0", "p1", "p2", "p7", "p8"]
