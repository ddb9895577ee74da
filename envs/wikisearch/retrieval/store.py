"""An index folder on disk: passages and an engine's files in one checksummed folder, memory-mapped, checked when opened."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.files.atomic import new_folder
from creditflow.envs.files.checksummed_folder import ChecksummedFolder, write_checksums
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.disk_corpus import DiskCorpus, PassageWriter
from creditflow.envs.wikisearch.retrieval.engines.base import ENGINES, IndexBuilder, RowIndex
from creditflow.envs.wikisearch.retrieval.engines.dense_options import DenseOptions
from creditflow.envs.wikisearch.retrieval.engines.embedded import EmbeddedBuilder, open_embedded
from creditflow.envs.wikisearch.retrieval.engines.vector_parts import parts_folder, remove_parts

__all__ = ["DiskCorpus", "open_store", "verify_store", "write_store"]

FORMAT: Final = "wikisearch-index/3"


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

    Passages are written as they arrive. Memory holds some 60 bytes of each, and for "bm25" the vocabulary and the ids,
    for "lucene" nothing (its indexer is a separate process), for "dense" a part of the vectors (some 10 MB),
    a sample of them for approximate search, and the lists of one shard. Vectors are first kept in the folder ``<path>.parts``,
    from which an interrupted build goes on; it needs the disk of the vectors a second time, and is removed at the end.

    Args:
        path: the folder to make.
        passages: consumed one at a time.
        engine: "bm25", "lucene" or "dense".
        memory: Java's limit, such as "512m" or "2g" (default 1g), for "lucene" alone.
        replace: replace an existing folder.
        dense: encoder and options, for "dense" alone.

    Raises:
        ConfigError: an unknown engine, or an option that it does not have or lacks.
        DataError: the folder exists, there are no passages, an id occurs twice, or parts of another build are in the way.
        MissingExtraError: the engine is not installed.
    """
    path = Path(path)
    if engine not in ENGINES:
        raise unknown_name_error("engine", engine, ENGINES)
    if path.exists() and not replace:
        raise DataError(f"{path} already exists; choose a new folder, or remove it first")
    with new_folder(path, replace=replace) as folder:
        with closing(PassageWriter(folder)) as corpus, closing(_builder(engine, folder, memory, dense, path)) as index:
            for passage in passages:
                corpus.add(passage)
                index.add(passage)
            digest = corpus.finish()
            facts = index.finish()
        write_checksums(folder, FORMAT, {**facts, "engine": engine, "digest": digest})
    if dense is not None:
        remove_parts(path)


def _builder(engine: str, folder: Path, memory: str, dense: DenseOptions | None, path: Path) -> IndexBuilder:
    if (engine == "dense") != (dense is not None):
        needs = "needs an encoder and its options" if dense is None else "takes no encoder"
        raise ConfigError(f"the engine {engine} {needs}")
    if dense is not None:
        from creditflow.envs.wikisearch.retrieval.engines.dense_index import DenseBuilder

        if memory:
            raise ConfigError(f"vectors have no memory option, got {short_repr(memory, 40)}")
        return DenseBuilder(folder, parts_folder(path), dense)
    if engine == "lucene":
        from creditflow.envs.wikisearch.retrieval.engines.lucene_index import LuceneBuilder

        return LuceneBuilder(folder, memory)
    if memory:
        raise ConfigError(f"the engine bm25 has no memory option, got {short_repr(memory, 40)}")
    return EmbeddedBuilder(folder)


def verify_store(path: str | Path) -> ChecksummedFolder:
    """Compare every byte of an index folder with its checksums; large files are not compared when one is opened.

    Raises:
        DataError: a missing or damaged file.
    """
    files = ChecksummedFolder(path, FORMAT, "rebuild the index")
    files.verify()
    return files


def open_store(
    path: str | Path, memory: str = "", threads: int = 1, *, encoder: str = "", probes: int = 0, device: str = "auto"
) -> tuple[DiskCorpus, RowIndex]:
    """Open an index folder, with the engine that it was built for.

    Args:
        path: the folder.
        memory: limit of Java's heap, for "lucene" alone.
        threads: threads that search the queries of one call; "bm25" has one.
        encoder: folder of the encoder, for "dense".
        probes: lists of an approximate index that are searched; 0 for the default.
        device: where queries are encoded.

    Raises:
        DataError: a missing or damaged file.
        MissingExtraError: its engine is not installed.
    """
    files = ChecksummedFolder(path, FORMAT, "rebuild the index")
    corpus, engine = DiskCorpus(files), files.header.get("engine")
    if engine == "bm25":
        return corpus, open_embedded(files)
    if engine == "lucene":
        from creditflow.envs.wikisearch.retrieval.engines.lucene_index import open_lucene

        return corpus, open_lucene(files, corpus, memory, threads)
    if engine == "dense":
        from creditflow.envs.wikisearch.retrieval.engines.dense_index import open_dense

        return corpus, open_dense(files, len(corpus), encoder, probes, threads, device)
    raise DataError(f"{files.path}: unknown engine {short_repr(engine, 40)}; known: {', '.join(ENGINES)}")
