"""Index folders and passage files: building a folder, and opening either with the requested engine.

An index folder has passages and an engine's files in one checksummed folder, memory-mapped and checked when opened. The built-in
BM25 has no files: it is made in memory when a folder is opened, which suits some hundred thousand passages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.files.atomic import new_folder
from creditflow.envs.files.checksummed_folder import HEADER, ChecksummedFolder, is_checksummed, write_checksums
from creditflow.envs.reading.failures import naming
from creditflow.envs.wikisearch.retrieval.base import (
    ENGINES,
    Corpus,
    IndexBuilder,
    MemoryCorpus,
    Passage,
    RowIndex,
    corpus_digest,
    read_passages,
)
from creditflow.envs.wikisearch.retrieval.disk_corpus import DiskCorpus, PassageWriter
from creditflow.envs.wikisearch.retrieval.engines.dense_index import DenseOptions
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_of, index_passages

__all__ = ["DiskCorpus", "open_corpus", "open_engine", "open_store", "verify_store", "write_store"]

FORMAT: Final = "wikisearch-index/4"


def write_store(
    path: str | Path,
    passages: Iterable[Passage],
    engine: str = "bm25",
    memory: str = "",
    *,
    replace: bool = False,
    dense: DenseOptions | None = None,
) -> None:
    """Index passages into a new folder, which appears under its name only when it is complete.

    Passages are written as they arrive. Memory holds some 60 bytes of each, and for "dense" a part of the vectors (some 10 MB);
    Lucene's indexer is a separate process.

    Args:
        path: the folder to make.
        passages: consumed one at a time.
        engine: "bm25", "lucene" or "dense".
        memory: Java's limit, such as "512m" or "2g" (default 1g), for "lucene" alone.
        replace: replace an existing folder.
        dense: encoder and options, for "dense" alone.

    Raises:
        ConfigError: an unknown engine, or an option that it does not have or lacks.
        DataError: the folder exists, there are no passages, or an id occurs twice.
        MissingExtraError: the engine is not installed.
    """
    path = Path(path)
    if engine not in ENGINES:
        raise unknown_name_error("engine", engine, ENGINES)
    if path.exists() and not replace:
        raise DataError(f"{path} already exists; choose a new folder, or remove it first")
    with new_folder(path, replace=replace) as folder:
        with closing(PassageWriter(folder)) as corpus, closing(_builder(engine, folder, memory, dense)) as index:
            for passage in passages:
                corpus.add(passage)
                index.add(passage)
            digest = corpus.finish()
            facts = index.finish()
        write_checksums(folder, FORMAT, {**facts, "engine": engine, "digest": digest})


def _builder(engine: str, folder: Path, memory: str, dense: DenseOptions | None) -> IndexBuilder:
    if (engine == "dense") != (dense is not None):
        needs = "needs an encoder and its options" if dense is None else "takes no encoder"
        raise ConfigError(f"the engine {engine} {needs}")
    if dense is not None:
        from creditflow.envs.wikisearch.retrieval.engines.dense_index import DenseBuilder

        if memory:
            raise ConfigError(f"vectors have no memory option, got {short_repr(memory, 40)}")
        return DenseBuilder(folder, dense)
    if engine == "lucene":
        from creditflow.envs.wikisearch.retrieval.engines.lucene_index import LuceneBuilder

        return LuceneBuilder(folder, memory)
    if memory:
        raise ConfigError(f"the engine bm25 has no memory option, got {short_repr(memory, 40)}")
    return _PassagesAlone()


class _PassagesAlone:
    """The builder of the built-in BM25, which is made in memory when the folder is opened."""

    def add(self, passage: Passage) -> None:
        del passage

    def finish(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


def verify_store(path: str | Path) -> ChecksummedFolder:
    """Compare every byte of an index folder with its checksums; large files are not compared when one is opened.

    Raises:
        DataError: a missing or damaged file.
    """
    files = ChecksummedFolder(path, FORMAT, "rebuild the index")
    files.verify()
    return files


def open_store(
    path: str | Path, memory: str = "", threads: int = 1, *, encoder: str = "", device: str = "auto"
) -> tuple[DiskCorpus, RowIndex]:
    """Open an index folder, with the engine that it was built for.

    Args:
        path: the folder.
        memory: limit of Java's heap, for "lucene" alone.
        threads: threads that search the queries of one call; "bm25" has one.
        encoder: folder of the encoder, for "dense".
        device: where queries are encoded.

    Raises:
        DataError: a missing or damaged file.
        MissingExtraError: its engine is not installed.
    """
    files = ChecksummedFolder(path, FORMAT, "rebuild the index")
    corpus, engine = DiskCorpus(files), files.header.get("engine")
    if engine == "bm25":
        return corpus, index_of(corpus)
    if engine == "lucene":
        from creditflow.envs.wikisearch.retrieval.engines.lucene_index import open_lucene

        return corpus, open_lucene(files, corpus, memory, threads)
    if engine == "dense":
        from creditflow.envs.wikisearch.retrieval.engines.dense_index import open_dense

        return corpus, open_dense(files, len(corpus), encoder, threads, device)
    raise DataError(f"{files.path}: unknown engine {short_repr(engine, 40)}; known: {', '.join(ENGINES)}")


_BUILD = "creditflow serve search --build-only --corpus FILE.jsonl --engine {engine} --index FOLDER"


def open_corpus(path: str) -> LocalRetriever:
    """The engine of a passage file (BM25 in memory) or of an index folder; cached in this process.

    Raises:
        DataError: the file or folder is missing or malformed.
    """
    return open_engine(corpus=path)


@lru_cache(maxsize=4)
def open_engine(
    *,
    corpus: str = "",
    index: str = "",
    engine: str = "auto",
    memory: str = "",
    threads: int = 1,
    encoder: str = "",
    device: str = "auto",
) -> LocalRetriever:
    """A search engine over passages on disk; cached in this process.

    Args:
        corpus: passage file (JSON lines, ``.gz`` or plain) or index folder. With an index folder of this package it
            must be the indexed corpus.
        index: index folder of this package.
        engine: "bm25", "lucene", "dense", or "auto": the engine of the index, and BM25 for a passage file.
        memory: limit of Java's heap, such as "4g", set once per process; for "lucene" alone.
        threads: threads that search the queries of one call; for all engines but "bm25".
        encoder: folder of the encoder that the index was built with; for "dense", which needs it.
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
    _check_texts(corpus=corpus, index=index, memory=memory, encoder=encoder, device=device)
    if not (corpus or index):
        raise ConfigError("an engine needs a corpus (a passage file) or an index (a folder)")
    if not index and Path(corpus).is_dir():
        corpus, index = "", corpus
    dense = {"encoder": encoder, "device": device}
    if not index:
        if engine not in ("auto", "bm25"):
            how = _BUILD.format(engine=engine) + (" --encoder FOLDER" if engine == "dense" else "")
            raise ConfigError(f"the engine {engine} needs an index folder; build one: {how}")
        _check_options("bm25", memory, threads, dense)
        return index_passages(_in_memory(corpus))
    if is_checksummed(index):
        return _open_own(corpus, index, engine, memory, threads, dense)
    what = "is a folder but not an index" if Path(index).is_dir() else "is not a folder"
    raise DataError(
        f"{index} {what}: expected {HEADER} in it; build one: "
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
    has_dense = dense != {"encoder": "", "device": "auto"}
    if has_dense and engine != "dense":
        raise ConfigError(f"encoder and device work only with the engine dense, not with {engine}")


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
