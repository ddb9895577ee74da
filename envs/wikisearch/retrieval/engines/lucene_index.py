"""Lucene through pyserini: the engine of the published BM25 runs.

``LuceneIndex`` calls pyserini's ``LuceneSearcher`` (k₁ = 0.9, b = 0.4, English analyser); queries are bags of words without syntax.
Anserini orders ties by id and lowers each score by a millionth, so that they differ. ``LuceneBuilder`` runs Anserini's
indexer over the passages of an index folder, in a separate Java process. Needs the extra ``[lucene]``, pyserini
and Java (see ``java``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import DataError, ServiceError, short_repr
from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.text.plain_text import plain_text
from creditflow.envs.wikisearch.retrieval.base import Corpus, Passage, Ranking, no_ranking
from creditflow.envs.wikisearch.retrieval.disk_corpus import PASSAGES
from creditflow.envs.wikisearch.retrieval.engines.java import (
    DEFAULT_MEMORY,
    JavaMachine,
    checked_memory,
    find_jar,
    find_java,
    java_machine,
)

__all__ = ["LuceneBuilder", "LuceneIndex", "open_lucene"]

MAX_ID_BYTES: Final = 8_000  # of an id; Lucene's terms have at most 32,766
MAX_CLAUSES: Final = 2**31 - 1  # different words of one query; Lucene's own limit is 1,024
_BLANK: Final = "".join(map(chr, range(33)))  # characters that Java trims
_CONTROL: Final = dict.fromkeys((*range(32), 127), " ")


class LuceneBuilder:
    """Indexes the passage file of a folder once it is complete.

    Args:
        folder: contains, or will contain, ``passages.jsonl``.
        memory: limit of the indexer's heap.

    Raises:
        ConfigError: a malformed memory limit.
        MissingJavaError: Java or the jar is missing.
    """

    def __init__(self, folder: Path, memory: str = "") -> None:
        self._folder, self._memory = folder, checked_memory(memory or DEFAULT_MEMORY)
        self._jar = find_jar()
        self._java = find_java()
        self._expected = 0

    def add(self, passage: Passage) -> None:
        """Count the next passage.

        Raises:
            DataError: an id that Lucene cannot hold.
        """
        if len(passage.id.encode("utf-8", "replace")) > MAX_ID_BYTES:
            raise DataError(f"Lucene takes ids of at most {MAX_ID_BYTES} bytes; got {short_repr(passage.id[:60])}…")
        if plain_text(passage.id) != passage.id:
            raise DataError(f"Lucene takes ids of valid Unicode; {passage.id[:60]!r} contains a lone surrogate")
        self._expected += bool(passage.contents.strip(_BLANK))

    def finish(self) -> dict[str, Any]:
        """Run the indexer.

        Raises:
            DataError: it failed, or left passages out.
        """
        half = max(64, _mebibytes(self._memory) // 2)
        with tempfile.TemporaryDirectory(dir=self._folder.parent, prefix=f"{self._folder.name}.in.") as source:
            try:  # the indexer reads every file of a folder, so it gets one with the passages alone
                os.link(self._folder / PASSAGES, Path(source) / PASSAGES)
            except OSError:  # a file system without hard links
                shutil.copyfile(self._folder / PASSAGES, Path(source) / PASSAGES)
            done = subprocess.run(  # noqa: S603 - the Java and jar that were checked
                [
                    str(self._java),
                    f"-Xmx{self._memory}",
                    "-cp",
                    str(self._jar),
                    "io.anserini.index.IndexCollection",
                    "-collection",
                    "JsonCollection",
                    "-generator",
                    "DefaultLuceneDocumentGenerator",
                    "-input",
                    source,
                    "-index",
                    str(self._folder),
                    "-threads",
                    "1",
                    "-memoryBuffer",
                    str(half),
                    "-optimize",
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        (self._folder / "write.lock").unlink(missing_ok=True)
        indexed = re.search(r"Total ([\d,]+) documents indexed", done.stdout)
        count = int(indexed[1].replace(",", "")) if indexed else 0
        if done.returncode or count != self._expected:
            raise DataError(
                f"Anserini's indexer indexed {count} of {self._expected} passages (exit code {done.returncode}); its output: "
                f"{(done.stderr or done.stdout).strip()[-600:]}"
            )
        return {"indexed": count}

    def close(self) -> None:
        """Nothing to close: the indexer is a separate process."""


def _mebibytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)


class LuceneIndex:
    """An opened index as a ``RowIndex``.

    Args:
        path: folder of the index.
        corpus: its passages, found by id.
        memory: limit of Java's heap, set once per process; "" for the running limit, or 1g.
        threads: threads that search the queries of one call.

    Raises:
        DataError: Lucene cannot open the folder.
        ServiceError: Java does not start.
    """

    def __init__(self, path: Path, corpus: Corpus, memory: str = "", threads: int = 1) -> None:
        self._machine: JavaMachine = java_machine(memory)
        self._corpus, self._threads, self._path = corpus, threads, path
        self._searcher: Any = self._machine.call(self._open)
        self.documents: int = self._searcher.num_docs

    def _open(self, jnius: Any) -> Any:
        try:
            searcher = self._machine.searcher(str(self._path))
            jnius.autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(MAX_CLAUSES)
        except jnius.JavaException as error:
            raise DataError(f"{self._path}: Lucene cannot open it: {_java_message(error)}") from error
        return searcher

    def __len__(self) -> int:
        return len(self._corpus)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """The best ``k`` rows for each query.

        Raises:
            DataError: a hit is not a passage of the corpus.
            ServiceError: Lucene failed, or this process is a fork of the one that opened the index.
        """
        if k <= 0 or not queries:
            return [no_ranking() for _ in queries]
        plain = [plain_text(query).translate(_CONTROL) for query in queries]
        results = self._machine.call(lambda jnius: self._search(jnius, plain, k))
        return [
            (
                np.array([self._row(name) for name, _ in hits], np.int64),
                np.array([score for _, score in hits], np.float32),
            )
            for hits in results
        ]

    def _row(self, name: str) -> int:
        row = self._corpus.row(name)
        if row is None:
            raise DataError(
                f"{self._path}: returned the document {name[:60]!r}, which the corpus does not have; they do not belong together"
            )
        return row

    def _search(self, jnius: Any, queries: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        try:
            if self._threads == 1 or len(queries) == 1:
                answers = [self._searcher.search(query, k) for query in queries]
            else:
                names = [str(number) for number in range(len(queries))]
                batch = self._searcher.batch_search(queries, names, k, self._threads)
                answers = [batch[name] for name in names]
            return [[(hit.docid, hit.score) for hit in hits] for hits in answers]
        except jnius.JavaException as error:
            raise ServiceError(f"Lucene failed: {_java_message(error)}") from error


def _java_message(error: Exception) -> str:
    return str(error).removeprefix("JVM exception occurred: ")[:300]


def open_lucene(files: ChecksummedFolder, corpus: Corpus, memory: str = "", threads: int = 1) -> LuceneIndex:
    """The index of an index folder.

    Raises:
        DataError: Lucene cannot open it, or its size differs from its header.
    """
    index = LuceneIndex(files.path, corpus, memory, threads)
    indexed = files.fact("indexed", int)
    if index.documents != indexed:
        raise DataError(f"{files.path} has {index.documents} documents, expected {indexed}; {files.how_to_fix}")
    return index
