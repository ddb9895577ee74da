"""Builds of vectors that are killed, interrupted, changed or in the way of something; options that do not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.models.encoders import save_encoder
from helpers.worlds.dense_index import build_index as build
from helpers.worlds.dense_index import contents
from helpers.worlds.retrieval_contract import PASSAGES

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.wikisearch.retrieval.documents import write_document
from creditflow.envs.wikisearch.retrieval.engines import dense_index
from creditflow.envs.wikisearch.retrieval.engines.dense_options import DenseOptions
from creditflow.envs.wikisearch.retrieval.engines.vector_parts import parts_folder
from creditflow.envs.wikisearch.retrieval.store import write_store
from creditflow.train.cli import main

pytestmark = pytest.mark.dense


BUILD = """
import os, sys
from pathlib import Path
from creditflow.envs.wikisearch.retrieval.engines import dense_index, vector_parts
from creditflow.envs.text.vectors import approximate
from creditflow.train.cli import main
limit, stage = int(sys.argv[1]), sys.argv[2]
dense_index.DenseBuilder.__init__.__defaults__ = (64, 256)
import torch
torch.set_num_threads(1)
if stage == "parts":
    whole = vector_parts.VectorParts.add
    def add(self, texts, encode):
        if len(self.files) == limit:
            os._exit(9)
        whole(self, texts, encode)
    vector_parts.VectorParts.add = add
if stage == "lists":
    replace, done = Path.replace, []
    def rename(self, target):
        if str(target).endswith(".faiss"):
            if len(done) == limit:
                os._exit(9)
            done.append(target)
        return replace(self, target)
    Path.replace = rename
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(("stage", "limit"), [("parts", 0), ("parts", 3), ("lists", 0), ("lists", 2)])
def test_a_killed_build_goes_on_to_the_same_bytes(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, limit: int
) -> None:
    lines = [json.dumps(write_document(passage)) for passage in PASSAGES]
    (tmp_path / "p.jsonl").write_text("\n".join(lines) + "\n", encoding="ascii")

    command = ["serve", "search", "--build-only", "--engine", "hybrid", "--corpus", str(tmp_path / "p.jsonl"), "--encoder",
               str(encoder), "--approximate", "pq4", "--precision", "int8", "--index"]  # fmt: skip
    killed = [sys.executable, "-c", BUILD, str(limit), stage, *command, str(tmp_path / "killed")]
    assert subprocess.run(killed, check=False).returncode == 9
    assert not (tmp_path / "killed").exists()
    left = list(parts_folder(tmp_path / "killed").rglob("*.part"))
    assert len(left) == 2 * (limit if stage == "parts" else -(-len(PASSAGES) // 64))
    monkeypatch.setattr(dense_index.DenseBuilder.__init__, "__defaults__", (64, 256))
    for name in ("killed", "whole"):
        assert main([*command, str(tmp_path / name)]) == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "p.jsonl", "whole"]


def interrupted(path: Path, encoder: Path, **options: Any) -> None:
    def stream() -> Any:
        yield from PASSAGES[:100]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(path, encoder, passages=stream(), **options)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_index.DenseBuilder.__init__, "__defaults__", (32, 64))


@pytest.mark.usefixtures("small_parts")
def test_parts_of_other_passages_are_encoded_again(encoder: Path, tmp_path: Path) -> None:
    interrupted(tmp_path / "index", encoder, approximate="sq8")
    changed = [*PASSAGES[:40], replace(PASSAGES[40], text="changed"), *PASSAGES[41:]]
    build(tmp_path / "index", encoder, passages=changed, approximate="sq8")
    build(tmp_path / "fresh", encoder, passages=changed, approximate="sq8")
    assert contents(tmp_path / "index") == contents(tmp_path / "fresh")


@pytest.mark.usefixtures("small_parts")
def test_a_damaged_part_is_encoded_again(encoder: Path, tmp_path: Path) -> None:
    interrupted(tmp_path / "index", encoder)
    part = parts_folder(tmp_path / "index") / "vectors.000001.part"
    part.write_bytes(part.read_bytes()[:-2] + b"xx")
    build(tmp_path / "index", encoder)
    build(tmp_path / "fresh", encoder)
    assert contents(tmp_path / "index") == contents(tmp_path / "fresh")


@pytest.mark.usefixtures("small_parts")
def test_parts_of_other_options_or_encoders_are_refused(encoder: Path, tmp_path: Path) -> None:
    interrupted(tmp_path / "index", encoder)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"precision": "int8"}, "another precision"),
        ({"pooling": "cls"}, "another encoder"),
        ({"approximate": "sq8"}, "another approximate index"),
        ({"encoder": save_encoder(tmp_path / "other", seed=1)}, "another encoder"),
    ]
    for options, message in cases:
        with pytest.raises(DataError, match=message):
            build(tmp_path / "index", **{"encoder": encoder, **options})
    parts = parts_folder(tmp_path / "index")
    (parts / "plan.json").unlink()
    with pytest.raises(DataError, match="is not an interrupted build"):
        build(tmp_path / "index", encoder)
    assert (parts / "vectors.000000.part").is_file()


def test_nothing_is_overwritten(encoder: Path, tmp_path: Path) -> None:
    path = build(tmp_path / "index", encoder)
    before = contents(path)
    with pytest.raises(DataError, match="already exists; choose a new folder"):
        build(path, encoder)
    assert contents(path) == before
    parts_folder(tmp_path / "second").mkdir()
    (parts_folder(tmp_path / "second") / "notes.txt").write_text("mine", encoding="ascii")
    with pytest.raises(DataError, match="is not an interrupted build"):
        build(tmp_path / "second", encoder)
    assert (parts_folder(tmp_path / "second") / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        ("dense", None, "needs an encoder"),
        ("bm25", {}, "takes no encoder"),
        ("dense", {"precision": "float8"}, "unknown precision"),
        ("dense", {"approximate": "hnsw"}, "codes of an approximate index"),
        ("dense", {"approximate": "pq5"}, "multiple of 5"),
        ("dense", {"lists": 4}, "lists requires an approximate index"),
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
