"""Builds of vectors: shards, folders that are in the way, and options that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.worlds.dense_index import build_index as build
from helpers.worlds.dense_index import contents
from helpers.worlds.retrieval_contract import PASSAGES

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.wikisearch.retrieval.engines import dense_index
from creditflow.envs.wikisearch.retrieval.engines.dense_index import DenseOptions
from creditflow.envs.wikisearch.retrieval.store import write_store

pytestmark = pytest.mark.dense


def test_shards_together_are_the_vectors_of_one_file(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_index.DenseBuilder.__init__, "__defaults__", (32, 64))
    shards = sorted(build(tmp_path / "many", encoder).glob("vectors.*"))
    assert len(shards) == -(-len(PASSAGES) // 64)
    monkeypatch.setattr(dense_index.DenseBuilder.__init__, "__defaults__", (32, 1 << 20))
    [whole] = build(tmp_path / "one", encoder).glob("vectors.*")
    np.testing.assert_array_equal(
        np.concatenate([np.fromfile(path, "<f2") for path in shards]), np.fromfile(whole, "<f2")
    )


def test_nothing_is_overwritten(encoder: Path, tmp_path: Path) -> None:
    path = build(tmp_path / "index", encoder)
    before = contents(path)
    with pytest.raises(DataError, match="already exists; choose a new folder"):
        build(path, encoder)
    assert contents(path) == before


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        ("dense", None, "needs an encoder"),
        ("bm25", {}, "takes no encoder"),
        ("dense", {"precision": "float8"}, "unknown precision"),
        ("dense", {"max_tokens": 99}, "reads at most 32 tokens"),
    ],
)  # fmt: skip
def test_wrong_options_of_a_build_leave_nothing_behind(
    encoder: Path, tmp_path: Path, engine: str, options: dict[str, Any] | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        dense = None if options is None else DenseOptions(encoder=str(encoder), **options)
        write_store(tmp_path / "index", PASSAGES, engine, dense=dense)
    assert list(tmp_path.iterdir()) == []
