"""The dense engine on real index folders: what holds for every engine, and the environment over them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.worlds.dense_index import KINDS
from helpers.worlds.dense_index import build_index as build
from helpers.worlds.dense_index import open_index as opened
from helpers.worlds.retrieval_contract import HOSTILE, PASSAGES, check_corpus, check_threads, ids

from creditflow.envs.errors import ConfigError
from creditflow.envs.text.encoding.encoder import TextEncoder
from creditflow.envs.text.encoding.settings import EncoderSettings
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.retrieval.engines.dense_index import DenseOptions
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever

pytestmark = pytest.mark.dense


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("index") / request.param, encoder, **KINDS[request.param])


@pytest.mark.parametrize(("check", "threads"), [(check_corpus, 1), (check_threads, 3)])
def test_it_passes_the_checks_of_every_engine(
    folder: Path, encoder: Path, check: Callable[[LocalRetriever], None], threads: int
) -> None:
    check(opened(folder, encoder, threads=threads))


def test_threads_change_no_bit(folder: Path, encoder: Path) -> None:
    queries = [passage.title for passage in PASSAGES[:20]]
    assert opened(folder, encoder, threads=3).search(queries, 5) == opened(folder, encoder).search(queries, 5)


def test_hits_are_sorted_and_equal_for_a_query_alone_and_in_a_batch(folder: Path, encoder: Path) -> None:
    engine = opened(folder, encoder)
    queries = [PASSAGES[0].title, "market charter", "who was born in a town?", PASSAGES[0].title]
    together = engine.search(queries, 7)
    assert together == [engine.search([query], 7)[0] for query in queries]
    assert together[0] == together[3]
    for hits in together:
        assert len(set(ids(hits))) == len(hits) == 7
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert ids(engine.search(["market charter"], 3)[0]) == ids(together[1])[:3]
    assert engine.search(["market", " \t"], 0) == [[], []]
    assert engine.search([" \t\n"], 5) == [[]]
    assert engine.search([], 5) == []


def test_any_text_is_a_query(folder: Path, encoder: Path) -> None:
    engine = opened(folder, encoder)
    for query in [*HOSTILE, "word " * 50_000]:
        assert len(engine.search([query], 5)[0]) == (5 if query.strip() else 0), query[:40]


def test_a_missing_encoder_folder_is_named_with_the_way_to_get_one() -> None:
    with pytest.raises(ConfigError, match=r"no encoder folder 'intfloat/e5-small-v2'.*hf download"):
        DenseOptions(encoder="intfloat/e5-small-v2")


def test_exact_search_is_brute_force_over_the_encoders_own_vectors(encoder: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"query_prefix": "query: ", "passage_prefix": "passage: "}
    path = build(tmp_path / "index", encoder, precision="float32", batch=7, **settings)
    model = TextEncoder(encoder, EncoderSettings(**settings), batch=7)
    vectors = np.fromfile(path / "vectors.raw", "<f4").reshape(-1, 16)
    np.testing.assert_allclose(vectors, model.passages([p.contents for p in PASSAGES]), atol=2e-6)
    queries = ["market charter", "a portrait"]
    for query, hits in zip(model.queries(queries), opened(path, encoder).search(queries, 9), strict=True):
        scores = vectors.astype(np.float64) @ query.astype(np.float64)
        best = sorted(range(len(PASSAGES)), key=lambda row: (-scores[row], row))[:9]
        assert ids(hits) == [PASSAGES[row].id for row in best]


def test_an_environment_searches_with_it(encoder: Path, tmp_path: Path) -> None:
    world = tmp_path / "world"
    from creditflow.envs.wikisearch.retrieval.base import read_passages
    from creditflow.envs.wikisearch.world.build import build_wiki

    build_wiki(world, articles=400, questions=8)
    corpus = world / "passages.jsonl.gz"
    index = build(tmp_path / "index", encoder, passages=read_passages(corpus))
    retriever = {"index": str(index), "encoder": str(encoder), "engine": "dense"}
    env = WikiSearchEnv(questions=str(world / "train.jsonl"), retriever=retriever)
    _, info = env.reset(seed=0)
    _, _, _, _, info = env.step(f"search: {info['admissible_actions'][0]}")
    assert len(info["doc_ids"]) == 3
    same = WikiSearchEnv(questions=str(world / "train.jsonl"), corpus=str(corpus))
    assert same.tasks.get(info["task_id"]).task_id == info["task_id"]  # the corpus names the task, not the engine


def test_a_moved_folder_opens_elsewhere(encoder: Path, tmp_path: Path) -> None:
    path = build(tmp_path / "index", encoder)
    found = opened(path, encoder).search(["market"], 4)
    shutil.move(path, tmp_path / "moved")
    assert opened(tmp_path / "moved", encoder).search(["market"], 4) == found
