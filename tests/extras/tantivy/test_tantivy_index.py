"""The tantivy engine on real index folders."""

import argparse
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers.shared_data import shared_file
from helpers.worlds.retrieval_contract import (
    CHECKS,
    HARMS,
    PASSAGES,
    check_damage,
    real_questions,
)

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.checksummed_folder import HEADER, write_checksums
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.corpus import read_passages
from creditflow.envs.wikisearch.retrieval.documents import write_document
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.opening import open_corpus, open_engine
from creditflow.envs.wikisearch.retrieval.store import open_store, write_store
from creditflow.train.cli import main
from creditflow.train.commands.serve import search as serve_search

pytestmark = pytest.mark.tantivy
pytest.importorskip("tantivy", reason="needs the extra [tantivy]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tantivy") / "index"
    write_store(path, PASSAGES, "tantivy")
    return path


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("threads", [1, 3])
def test_it_passes_the_checks_of_every_engine(
    folder: Path, check: Callable[[LocalRetriever], None], threads: int
) -> None:
    check(LocalRetriever(*open_store(folder, threads=threads)))


def test_two_builds_give_the_same_hits(folder: Path, tmp_path: Path) -> None:
    write_store(tmp_path / "again", PASSAGES, "tantivy", memory="15m")
    queries = [passage.title for passage in PASSAGES[:50]]
    assert open_corpus(str(tmp_path / "again")).search(queries, 9) == open_corpus(str(folder)).search(queries, 9)


def test_equal_scores_are_in_the_order_of_passages_over_segments(tmp_path: Path) -> None:
    from creditflow.envs.wikisearch.retrieval.engines.tantivy_index import (
        MIN_HEAP,
        TantivyBuilder,
        TantivyIndex,
        _tantivy,
    )

    count, engine = 250_000, _tantivy()
    builder = TantivyBuilder(tmp_path, MIN_HEAP)  # a small heap makes several segments
    for row in range(count):
        builder.add(Passage(str(row), "", f"same words {'twice twice' if row % 3 else 'once more'} w{row}", ""))
    builder.finish()
    searcher = engine.Index.open(str(tmp_path)).searcher()
    assert searcher.num_segments > 1
    index = TantivyIndex(engine, searcher)
    for k in (1, 10, 1000):
        [(rows, scores)] = index.rank(["twice"], k)
        assert rows.tolist() == [row for row in range(3 * k) if row % 3][:k]
        assert len(set(scores.tolist())) == 1
    assert index.rank(["once"], 2 * count)[0][0].tolist() == list(range(0, count, 3))


def names(folder: Path) -> Sequence[str]:
    return sorted(json.loads((folder / "header.json").read_text())["files"])


@pytest.mark.parametrize("harm", HARMS)
def test_damage_of_any_file_is_found_when_the_folder_is_opened(tmp_path: Path, harm: str) -> None:
    write_store(tmp_path / "whole", PASSAGES[:20], "tantivy")
    check_damage(tmp_path / "whole", tmp_path / "index", harm)


def test_opening_and_searching_leave_the_folder_as_it_was(tmp_path: Path) -> None:
    write_store(tmp_path / "index", PASSAGES[:20], "tantivy")
    before = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert before == sorted([*names(tmp_path / "index"), "header.json"])  # no lock is part of it either
    assert open_corpus(str(tmp_path / "index")).search([PASSAGES[0].title], 3)[0]
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == before


@pytest.mark.parametrize("memory", ["1m", "9g", "lots"])
def test_a_heap_that_the_library_does_not_take_is_a_configuration_error(tmp_path: Path, memory: str) -> None:
    with pytest.raises(ConfigError, match=r"memory"):
        write_store(tmp_path / "index", PASSAGES, "tantivy", memory=memory)
    assert list(tmp_path.iterdir()) == []


def test_another_engine_is_rejected(folder: Path) -> None:
    with pytest.raises(ConfigError, match="built for the engine 'tantivy', not 'bm25'"):
        open_engine(index=str(folder), engine="bm25")


def test_serve_search_builds_then_opens(tmp_path: Path) -> None:
    lines = [json.dumps(write_document(passage)) for passage in PASSAGES]
    (tmp_path / "p.jsonl").write_text("\n".join(lines) + "\n", encoding="ascii")
    parser = argparse.ArgumentParser()
    serve_search.add_arguments(parser)
    options = ["--corpus", str(tmp_path / "p.jsonl"), "--index", str(tmp_path / "index"), "--engine", "tantivy"]
    assert serve_search.run(parser.parse_args([*options, "--build-only", "--memory", "32m"])) == 0
    engine = serve_search._engine(parser.parse_args(options))
    assert engine.search(["market charter"], 1)[0]
    assert main(["serve-search", *options, "--build-only"]) == 2  # over an existing folder only with --force
    (tmp_path / "p.jsonl").write_text("\n".join(lines[1:]) + "\n", encoding="ascii")
    open_engine.cache_clear()
    with pytest.raises(DataError, match="built from other passages"):
        serve_search._engine(parser.parse_args(options))


def test_its_recall_is_at_least_98_percent_of_the_default_engines(tmp_path: Path) -> None:
    path = shared_file("data/search/passages.jsonl.gz")
    write_store(tmp_path / "index", read_passages(path), "tantivy")
    questions = real_questions()
    recall_sums = []
    for engine in (open_corpus(str(tmp_path / "index")), open_corpus(str(path))):
        found = engine.search([row["question"] for row in questions], 10)
        golden = [set(row["gold_passage_ids"]) for row in questions]
        recall_sums.append(
            sum(
                len(gold & {hit.passage.id for hit in hits}) / len(gold)
                for gold, hits in zip(golden, found, strict=True)
            )
        )
    assert recall_sums[0] > 0.98 * recall_sums[1]


def test_an_environment_searches_with_it(tmp_path: Path) -> None:
    path = shared_file("data/search/passages.jsonl.gz")
    write_store(tmp_path / "index", read_passages(path), "tantivy")
    questions = str(shared_file("data/search/musique.jsonl.gz"))
    env = WikiSearchEnv(questions=questions, retriever={"index": str(tmp_path / "index"), "engine": "tantivy"})
    _, info = env.reset(seed=0)
    _, _, _, _, info = env.step(f"search: {info['admissible_actions'][0]}")
    assert len(info["doc_ids"]) == 3
    same = WikiSearchEnv(questions=questions, corpus=str(path))
    assert same.tasks.get(info["task_id"]).task_id == info["task_id"]  # the corpus names the task, not the engine


def test_every_byte_is_compared_before_the_library_sees_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("creditflow.envs.files.checksummed_folder.MAX_CHECKED", 0)  # as if all files were large
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for file in sorted(copy.iterdir()):
        whole = file.read_bytes()
        if file.suffix not in (".store", ".term", ".idx", ".fast", ".pos", ".fieldnorm"):
            continue
        data = bytearray(whole)
        data[len(data) // 2] ^= 0x40
        file.write_bytes(data)
        with pytest.raises(DataError, match="checksum differs"):
            open_store(copy)
        file.write_bytes(whole)
    open_store(copy)


def test_files_that_the_header_does_not_name_are_not_read(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / ".managed.json").unlink(missing_ok=True)
    (copy / "meta.json").rename(copy / "other.json")
    header = json.loads((copy / HEADER).read_text())
    (copy / HEADER).unlink()
    (copy / "other.json").rename(tmp_path / "meta.json")
    facts = {name: value for name, value in header.items() if name not in ("files", "format", "checksum")}
    write_checksums(copy, header["format"], facts)
    (tmp_path / "meta.json").rename(copy / "meta.json")  # put beside the checksummed files
    with pytest.raises(DataError, match="tantivy cannot open it"):
        open_store(copy)
