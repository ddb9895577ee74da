"""Index folders of the dense engine over the passages that all engines are tested with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.worlds.retrieval_contract import PASSAGES

from creditflow.envs.wikisearch.retrieval.engines.dense_index import DenseOptions
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.store import open_store, write_store

KINDS: dict[str, dict[str, Any]] = {"exact": {}, "float32": {"precision": "float32"}}


def build_index(path: Path, encoder: Path, engine: str = "dense", passages: Any = PASSAGES, **options: Any) -> Path:
    write_store(path, passages, engine, dense=DenseOptions(encoder=str(encoder), **options))
    return path


def open_index(path: Path, encoder: Path, **options: Any) -> LocalRetriever:
    return LocalRetriever(*open_store(path, encoder=str(encoder), **options))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
