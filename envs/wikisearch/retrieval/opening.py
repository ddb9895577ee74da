"""Opens a passage file, an index folder or an existing Lucene index with the requested engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.files.checksummed_folder import HEADER, ChecksummedFolder, is_checksummed
from creditflow.envs.reading.failures import naming
from creditflow.envs.wikisearch.retrieval.base import Corpus, MemoryCorpus, corpus_digest
from creditflow.envs.wikisearch.retrieval.disk_corpus import DiskCorpus
from creditflow.envs.wikisearch.retrieval.documents import read_passages
from creditflow.envs.wikisearch.retrieval.engines.base import ENGINES
from creditflow.envs.wikisearch.retrieval.engines.lucene_prebuilt import (
    is_lucene,
    is_prebuilt_name,
    open_prebuilt,
    prebuilt_folder,
)
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_passages
from creditflow.envs.wikisearch.retrieval.store import FORMAT, open_store

__all__ = ["open_corpus", "open_engine"]

_BUILD = "creditflow serve search --build-only --corpus FILE.jsonl --engine {engine} --index FOLDER"


def open_corpus(path: str) -> LocalRetriever:
    """The engine of a passage file (BM25 in memory), of an index folder, or of a Lucene index; cached in this process.

    Raises:
        DataError: the file or folder is missing or malformed.
    """
    return open_engine(corpus=path)


@lru_cache(maxsize=4)
def open_engine(
    *, corpus: str = "", index: str = "", engine: str = "auto", memory: str = "", threads: int = 1,
    encoder: str = "", probes: int = 0, device: str = "auto",
) -> LocalRetriever:  # fmt: skip
    """A search engine over passages on disk; cached in this process.

    Args:
        corpus: passage file (JSON lines, ``.gz`` or plain) or index folder. With an index folder of this package it
            must be the indexed corpus; with another Lucene index it has the passages, unless the index stores them.
        index: index folder of this package, a Lucene index that Anserini or pyserini built, or with the engine "lucene"
            the name of one of pyserini's prebuilt indexes, which pyserini downloads.
        engine: "bm25", "lucene", "dense", or "auto": the engine of the index, and BM25 for a passage file.
        memory: limit of Java's heap, such as "4g", set once per process; for "lucene" alone.
        threads: threads that search the queries of one call; for all engines but "bm25".
        encoder: folder of the encoder that the index was built with; for "dense", which needs it.
        probes: lists of an approximate index that are searched; 0 for the default.
        device: where queries are encoded: "auto", "cpu", "cuda", …; for "dense".

    Raises:
        ConfigError: a wrong argument, or the index is of another engine.
        DataError: a file or folder is missing, malformed, or they do not belong together.
        MissingExtraError: the engine is not installed.
    """
    if engine not in ("auto", *ENGINES):
        raise unknown_name_error("engine", engine, ("auto", *ENGINES))
    if type(threads) is not int or not 1 <= threads <= 256:
        raise ConfigError(f"threads is from 1 to 256, got {short_repr(threads)}")
    if type(probes) is not int or probes < 0:
        raise ConfigError(f"probes must be a number of lists (0 = default), got {short_repr(probes)}")
    _check_texts(corpus=corpus, index=index, memory=memory, encoder=encoder, device=device)
    if not (corpus or index):
        raise ConfigError("an engine needs a corpus (a passage file) or an index (a folder)")
    if not index and Path(corpus).is_dir():
        corpus, index = "", corpus
    dense = {"encoder": encoder, "probes": probes, "device": device}
    if not index:
        if engine not in ("auto", "bm25"):
            how = _BUILD.format(engine=engine) + (" --encoder FOLDER" if engine == "dense" else "")
            raise ConfigError(f"the engine {engine} needs an index folder; build one: {how}")
        _check_options("bm25", memory, threads, dense)
        return index_passages(_in_memory(corpus))
    if engine == "lucene" and is_prebuilt_name(index):
        index = prebuilt_folder(index, memory)
    if is_checksummed(index):
        return _open_own(corpus, index, engine, memory, threads, dense)
    if is_lucene(index):
        if engine not in ("auto", "lucene"):
            raise ConfigError(f"{index} is a Lucene index, not one of {engine}")
        _check_options("lucene", memory, threads, dense)
        return LocalRetriever(*open_prebuilt(index, _passages(corpus) if corpus else None, memory, threads))
    what = "is a folder but not an index" if Path(index).is_dir() else "is not a folder"
    raise DataError(
        f"{index} {what}: expected {HEADER} or Lucene's segments in it; build one: "
        + _BUILD.format(engine=engine if engine in ENGINES else "bm25")
    )


def _check_texts(**options: Any) -> None:
    for name, value in options.items():
        if not isinstance(value, str):
            raise ConfigError(f"{name} is a text, got {short_repr(value)}")


def _open_own(corpus: str, index: str, engine: str, memory: str, threads: int, dense: dict[str, Any]) -> LocalRetriever:
    files = ChecksummedFolder(index, FORMAT, "rebuild the index")
    header = files.header
    if engine not in ("auto", header.get("engine")):
        raise ConfigError(f"{index} was built for the engine {header.get('engine')!r}, not {engine!r}")
    _check_options(str(header.get("engine")), memory, threads, dense)
    if corpus:
        digest = _passages(corpus).digest if Path(corpus).is_dir() else corpus_digest(read_passages(corpus))
        if digest != files.fact("digest", str):
            raise DataError(
                f"{index} was built from other passages than those of {corpus}; pass only one of them, or rebuild the index"
            )
    return LocalRetriever(*open_store(index, memory, threads, **dense))


def _check_options(engine: str, memory: str, threads: int, dense: Mapping[str, Any]) -> None:
    """Reject options that the engine would ignore."""
    if memory and engine != "lucene":
        raise ConfigError(f"memory works only with the engine lucene, not with {engine}; got {short_repr(memory, 40)}")
    if threads > 1 and engine == "bm25":
        raise ConfigError(f"the engine bm25 searches in one thread, got threads={threads}")
    has_dense = dense != {"encoder": "", "probes": 0, "device": "auto"}
    if has_dense and engine != "dense":
        raise ConfigError(f"encoder, probes and device work only with the engine dense, not with {engine}")


def _passages(corpus: str) -> Corpus:
    if is_checksummed(corpus):
        return DiskCorpus(ChecksummedFolder(corpus, FORMAT, "rebuild the index"))
    return _in_memory(corpus)


def _in_memory(corpus: str) -> MemoryCorpus:
    with naming(corpus):
        passages = MemoryCorpus(read_passages(corpus))
    if not len(passages):
        raise DataError(f"{corpus} contains no passages")
    return passages
