"""An index folder on disk: passages and an engine's files in one checksummed folder, memory-mapped, checked when opened."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.files.atomic import new_folder
from creditflow.envs.files.checksummed_folder import ChecksummedFolder, write_checksums
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.disk_corpus import DiskCorpus, PassageWriter
from creditflow.envs.wikisearch.retrieval.engines.base import ENCODED, ENGINES, IndexBuilder, RowIndex
from creditflow.envs.wikisearch.retrieval.engines.dense_options import LEXICAL, DenseOptions
from creditflow.envs.wikisearch.retrieval.engines.embedded import EmbeddedBuilder, open_embedded
from creditflow.envs.wikisearch.retrieval.engines.hybrid_index import HybridBuilder, HybridIndex
from creditflow.envs.wikisearch.retrieval.engines.java import checked_memory
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
    for "tantivy" its heap, for "lucene" nothing (its indexer is a separate process), for "dense" a part of the vectors (some 10 MB),
    a sample of them for approximate search, and the lists of one shard. Vectors are first kept in the folder ``<path>.parts``,
    from which an interrupted build goes on; it needs the disk of the vectors a second time, and is removed at the end.

    Args:
        path: the folder to make.
        passages: consumed one at a time.
        engine: "bm25", "tantivy", "lucene", "dense" or "hybrid".
        memory: such as "512m" or "2g": the heap of tantivy's writer (default 256m), or Java's limit (default 1g).
        replace: replace an existing folder.
        dense: encoder and options, for "dense" and "hybrid" alone.

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
    if (engine in ENCODED) != (dense is not None):
        needs = "needs an encoder and its options" if dense is None else "takes no encoder"
        raise ConfigError(f"the engine {engine} {needs}")
    if dense is not None:
        from creditflow.envs.wikisearch.retrieval.engines.dense_index import DenseBuilder

        if memory and (engine, dense.lexical) != ("hybrid", "tantivy"):
            raise ConfigError(f"vectors have no memory option, got {short_repr(memory, 40)}")
        vectors = DenseBuilder(folder, parts_folder(path), dense)
        if engine == "dense":
            return vectors
        try:
            lexical = _builder(dense.lexical, folder, memory, None, path)
        except BaseException:
            vectors.close()
            raise
        return HybridBuilder(lexical, vectors, dense.lexical)
    if engine == "tantivy":
        from creditflow.envs.wikisearch.retrieval.engines.tantivy_index import HEAP, TantivyBuilder

        return TantivyBuilder(folder, _bytes(memory) if memory else HEAP)
    if engine == "lucene":
        from creditflow.envs.wikisearch.retrieval.engines.lucene_index import LuceneBuilder

        return LuceneBuilder(folder, memory)
    if memory:
        raise ConfigError(f"the engine bm25 has no memory option, got {short_repr(memory, 40)}")
    return EmbeddedBuilder(folder)


def _bytes(memory: str) -> int:
    memory_text = checked_memory(memory)
    return int(memory_text[:-1]) << (30 if memory_text.endswith("g") else 20)


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
        encoder: folder of the encoder, for "dense" and "hybrid".
        probes: lists of an approximate index that are searched; 0 for the default.
        device: where queries are encoded.

    Raises:
        DataError: a missing or damaged file.
        MissingExtraError: its engine is not installed.
    """
    files = ChecksummedFolder(path, FORMAT, "rebuild the index")
    corpus, engine = DiskCorpus(files), files.header.get("engine")
    if engine not in ENCODED:
        return corpus, _open_lexical(files, corpus, engine, memory, threads)
    from creditflow.envs.wikisearch.retrieval.engines.dense_index import open_dense

    dense = open_dense(files, len(corpus), encoder, probes, threads, device)
    if engine == "dense":
        return corpus, dense
    lexical = files.fact("lexical", str)
    if lexical not in LEXICAL:
        raise DataError(f"{path}: unknown lexical engine {short_repr(lexical, 40)}; known: {', '.join(LEXICAL)}")
    return corpus, HybridIndex(_open_lexical(files, corpus, lexical, memory, threads), dense)


def _open_lexical(files: ChecksummedFolder, corpus: DiskCorpus, engine: Any, memory: str, threads: int) -> RowIndex:
    if engine == "bm25":
        return open_embedded(files)
    if engine == "tantivy":
        from creditflow.envs.wikisearch.retrieval.engines.tantivy_index import open_tantivy

        return open_tantivy(files, len(corpus), threads)
    if engine == "lucene":
        from creditflow.envs.wikisearch.retrieval.engines.lucene_index import open_lucene

        return open_lucene(files, corpus, memory, threads)
    raise DataError(f"{files.path}: unknown engine {short_repr(engine, 40)}; known: {', '.join(ENGINES)}")
