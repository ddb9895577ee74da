"""Encyclopedias on disk: streamed, complete, usable."""

from pathlib import Path

import pytest

import creditflow
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.wikisearch.retrieval.base import MemoryCorpus, read_passages
from creditflow.envs.wikisearch.world.articles import passages
from creditflow.envs.wikisearch.world.build import build_wiki
from creditflow.envs.wikisearch.world.graph import make_world


def test_a_written_encyclopedia_is_that_of_the_world(tmp_path: Path) -> None:
    done: list[int] = []
    build_wiki(tmp_path / "w", articles=1_200, seed=9, progress=done.append)
    assert done == [1_000, 1_200]
    assert list(read_passages(tmp_path / "w" / "passages.jsonl.gz")) == list(passages(make_world(9, 1_200)))


def test_the_same_arguments_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        build_wiki(tmp_path / name, articles=200, seed=2)
    assert (tmp_path / "a" / "passages.jsonl.gz").read_bytes() == (tmp_path / "b" / "passages.jsonl.gz").read_bytes()


@pytest.mark.parametrize("index", [False, True])
def test_built_questions_are_played_over_the_built_encyclopedia(tmp_path: Path, index: bool) -> None:
    build_wiki(tmp_path / "w", articles=400, seed=3, questions=96, index=index)
    corpus = tmp_path / "w" / ("index" if index else "passages.jsonl.gz")
    env = creditflow.make("wikisearch", questions=str(tmp_path / "w" / "train.jsonl"), corpus=str(corpus)).unwrapped
    env.reset(seed=0)
    info = env.step("search: charter")[4]
    assert info["doc_ids"]
    assert info["evidence_total"] >= 2
    digest = MemoryCorpus(passages(make_world(3, 400))).digest
    assert env.library.digest == digest  # type: ignore[attr-defined]  # a WikiSearchEnv


def test_existing_folders_and_impossible_sizes_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exists"):
        build_wiki(tmp_path, articles=300)
    with pytest.raises(ConfigError):
        build_wiki(tmp_path / "w", articles=2_000_000)
    with pytest.raises(DataError, match="at most"):
        build_wiki(tmp_path / "w", articles=300_000, questions=1)
    assert not (tmp_path / "w").exists()
