"""Builds of vectors: parts, folders that are in the way, and options that do not fit."""

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


def test_parts_together_are_the_vectors_of_one_pass(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_index, "PART_ROWS", 32)
    parts = contents(build(tmp_path / "parts", encoder))
    monkeypatch.undo()
    assert parts["vectors.raw"] == contents(build(tmp_path / "one", encoder))["vectors.raw"]


@pytest.mark.parametrize(("precision", "value"), [("float16", 1e30), ("float32", np.nan), ("float16", np.inf)])
def test_a_value_that_the_precision_cannot_hold_is_an_error(precision: str, value: float) -> None:
    with pytest.raises(DataError, match="must be finite"), np.errstate(all="ignore"):
        dense_index.encoded_rows(np.array([[1.0, value]], np.float32), precision)


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
