"""A tantivy index over the passages of an index folder, for tens of millions of passages in this process.

Its BM25 is fixed at k₁ = 1.2, b = 0.75 and it has its own tokenizer and stemmer, so its ranking is similar, not equal, to
that of the default engine. Ties are in the order of passages: every document stores its row number, and ties at the end
of the list are read completely before they are ordered, so segments and threads have no effect. Files are
memory-mapped. Needs the extra ``[tantivy]``.

Trust: tantivy reads its files without checking them, and damaged ones can abort the whole process, which no ``except``
stops. So every byte is compared with the folder's checksums before it is opened. They detect damage, not tampering: whoever
can write into the folder can also write its checksums. Open only folders from sources whose programs you would run, or build
the index from the passages, which may come from any source.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, MissingExtraError, ServiceError
from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.reading.failures import loading
from creditflow.envs.text.plain_text import plain_text
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.engines.base import Ranking, no_ranking

__all__ = ["TantivyBuilder", "TantivyIndex", "open_tantivy"]

MAX_WORD_BYTES: Final = 255  # bytes of a word; longer ones are not indexed
HEAP: Final = 256 << 20  # bytes that the writer buffers before it writes a segment
MIN_HEAP, MAX_HEAP = 15_000_000, (1 << 32) - 1_000_000  # the library's limits
LOCKS: Final = (".tantivy-meta.lock", ".tantivy-writer.lock")


def _tantivy() -> ModuleType:
    try:
        import tantivy
    except ImportError as error:
        raise MissingExtraError("tantivy, the search engine,", "tantivy") from error
    module: ModuleType = tantivy
    return module


def _schema(engine: ModuleType) -> Any:
    builder = engine.SchemaBuilder()
    builder.add_text_field("contents", stored=False, tokenizer_name="english", index_option="freq")
    builder.add_unsigned_field("row", stored=False, indexed=False, fast=True)
    return builder.build()


def _analyser(engine: ModuleType) -> Any:
    filters = engine.Filter
    builder = engine.TextAnalyzerBuilder(engine.Tokenizer.simple()).filter(filters.remove_long(MAX_WORD_BYTES))
    return (
        builder.filter(filters.lowercase())
        .filter(filters.stopword("english"))
        .filter(filters.stemmer("english"))
        .build()
    )


class TantivyBuilder:
    """Writes a tantivy index into a folder.

    Args:
        folder: receives the files.
        heap: bytes that the writer buffers before it writes a segment; more is faster and merges less.

    Raises:
        ConfigError: a heap outside the library's limits.
        MissingExtraError: tantivy is not installed.
    """

    def __init__(self, folder: Path, heap: int = HEAP) -> None:
        self._engine, self._folder, self._rows = _tantivy(), folder, 0
        if not MIN_HEAP <= heap <= MAX_HEAP:
            raise ConfigError(f"tantivy's writer takes {MIN_HEAP:,} to {MAX_HEAP:,} bytes of memory, got {heap:,}")
        index = self._engine.Index(_schema(self._engine), path=str(folder))
        index.register_tokenizer("english", _analyser(self._engine))
        self._writer: Any = index.writer(heap_size=heap, num_threads=1)

    def add(self, passage: Passage) -> None:
        """Index the next passage."""
        document = self._engine.Document()
        document.add_text("contents", plain_text(passage.contents))
        document.add_unsigned("row", self._rows)
        self._writer.add_document(document)
        self._rows += 1

    def finish(self) -> dict[str, Any]:
        """Write the remaining documents and wait for merges."""
        self._writer.commit()
        self._writer.wait_merging_threads()
        self.close()
        for name in LOCKS:
            (self._folder / name).unlink(missing_ok=True)
        return {}

    def close(self) -> None:
        """Release the writer."""
        self._writer = None


class TantivyIndex:
    """An opened index as a ``RowIndex``.

    Args:
        engine: the tantivy module.
        searcher: searcher of the index.
        threads: threads that search the queries of one call.
    """

    def __init__(self, engine: ModuleType, searcher: Any, threads: int = 1) -> None:
        self._engine, self._searcher, self._threads = engine, searcher, threads
        self._schema, self._analyser = _schema(engine), _analyser(engine)

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query.

        Raises:
            ServiceError: the library failed.
        """
        with loading("tantivy failed", ServiceError):
            if self._threads == 1 or len(queries) == 1:
                return [self._best(query, k) for query in queries]
            with ThreadPoolExecutor(self._threads, "tantivy") as pool:  # tantivy releases the interpreter lock
                return list(pool.map(lambda query: self._best(query, k), queries))

    def _best(self, query: str, k: int) -> Ranking:
        parsed = self._query(query)
        if parsed is None or k <= 0:
            return no_ranking()
        hits = self._with_complete_ties(parsed, min(k, len(self)))
        scores = np.array([score for score, _ in hits], np.float32)
        rows = np.array(self._searcher.fast_field_values("row", [address for _, address in hits]), np.int64)
        if len(rows) and int(rows.max()) >= len(self):
            raise DataError(f"the index refers to row {int(rows.max())} of {len(self)}; rebuild the index")
        order = np.lexsort((rows, -scores))[:k]
        return rows[order], scores[order]

    def _query(self, text: str) -> Any:
        """A disjunction of the text's terms, each weighted by its count, without syntax; None without terms."""
        clauses = []
        for term, count in sorted(Counter(self._analyser.analyze(plain_text(text))).items()):
            clause = self._engine.Query.term_query(self._schema, "contents", term, "freq")
            if count > 1:
                clause = self._engine.Query.boost_query(clause, float(count))
            clauses.append((self._engine.Occur.Should, clause))
        return self._engine.Query.boolean_query(clauses) if clauses else None

    def _with_complete_ties(self, query: Any, k: int) -> list[Any]:
        """The best ``k`` hits and all that tie with the last of them: which ones a cut would keep depends on segments."""
        limit = k + 1
        while True:
            hits: list[Any] = self._searcher.search(query, limit, count=False).hits
            if len(hits) < limit or hits[-1][0] < hits[k - 1][0]:
                return hits
            limit = min(limit * 8, len(self) + 1)


def _searcher(engine: ModuleType, files: ChecksummedFolder) -> Any:
    """A searcher of the index in a folder; it reads only the files that its header names.

    The library makes a lock file where it opens an index, which a read-only or checksummed folder does not
    allow. So it opens links to the files; once it has mapped them into memory, the links are not needed.
    """
    with tempfile.TemporaryDirectory(prefix="tantivy.") as links:
        for name in files.header["files"]:
            (Path(links) / name).symlink_to(files.path.resolve() / name)
        index = engine.Index.open(links)
        index.config_reader(reload_policy="manual")  # the files do not change
        return index.searcher()


def open_tantivy(files: ChecksummedFolder, passages: int, threads: int = 1) -> TantivyIndex:
    """The index of a folder, whose every byte is compared with its checksums first (about a second a gigabyte).

    Args:
        files: the folder; see the module about trust.
        passages: the number of passages that it must contain.
        threads: threads that search the queries of one call.

    Raises:
        DataError: it is damaged, cannot be read, or has another number of passages.
        MissingExtraError: tantivy is not installed.
    """
    engine = _tantivy()
    files.verify()
    with loading(f"{files.path}: tantivy cannot open it; {files.how_to_fix}"):
        index = TantivyIndex(engine, _searcher(engine, files), threads)
        if len(index) != passages:
            raise DataError(f"{files.path}: indexes {len(index)} passages, expected {passages}; {files.how_to_fix}")
    return index
