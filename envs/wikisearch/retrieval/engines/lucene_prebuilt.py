"""Existing Lucene indexes of Anserini or pyserini, with their passages stored in them or in a file beside them.

A corpus is checked against the index when it is opened: ids that the corpus lacks, or another number of documents than
passages, are errors.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError, ServiceError, short_repr, unknown_name_error
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.reading.streams import read_bytes
from creditflow.envs.wikisearch.retrieval.base import Corpus, Passage
from creditflow.envs.wikisearch.retrieval.documents import read_document
from creditflow.envs.wikisearch.retrieval.engines.java import java_machine
from creditflow.envs.wikisearch.retrieval.engines.lucene_index import BLANK, LuceneIndex, row_by_id

__all__ = ["StoredCorpus", "is_lucene", "is_prebuilt_name", "open_prebuilt", "prebuilt_folder"]

SAMPLED: Final = 1_000  # documents, spread evenly, whose ids are looked up when an index is opened
MAX_TITLES: Final = 1 << 16
PAGE_DEPTH: Final = 200  # search results among which a page is looked for


def is_lucene(path: str | Path) -> bool:
    """Whether the path looks like a Lucene index."""
    return Path(path).is_dir() and any(Path(path).glob("segments_*"))


def is_prebuilt_name(index: str) -> bool:
    """Whether it can be the name of one of pyserini's prebuilt indexes, and not a path."""
    return re.fullmatch(r"\w[\w.-]*", index) is not None and not Path(index).exists()


def prebuilt_folder(name: str, memory: str = "") -> str:
    """The folder of one of pyserini's prebuilt indexes, which pyserini downloads into its cache if it is not there.

    Args:
        name: such as "wikipedia-dpr-100w".
        memory: limit of Java's heap; "" for the running limit, or 1g.

    Raises:
        ConfigError: pyserini has no such index.
        ServiceError: it cannot be downloaded, or is not what was published.
    """
    machine, said = java_machine(memory), io.StringIO()

    def fetch(_: Any) -> str:
        from pyserini.prebuilt_index_info import TF_INDEX_INFO

        if name not in TF_INDEX_INFO:
            raise unknown_name_error("folder or prebuilt index of pyserini", name, TF_INDEX_INFO)
        with redirect_stdout(said), loading(f"pyserini's prebuilt index {name} cannot be opened", ServiceError):
            searcher = machine.searcher.from_prebuilt_index(name)
        if searcher is None:
            raise ServiceError(f"pyserini's prebuilt index {name} cannot be downloaded: {said.getvalue().strip()}")
        searcher.close()
        return str(searcher.index_dir)

    return machine.call(fetch)


class StoredCorpus:
    """The passages that a Lucene index stores.

    There is no index of pages: they are found by a search for their title. A page whose name is not its title is
    known once a passage of it was read.

    Args:
        index: with stored raw texts; its rows are document numbers.
        path: folder of the index.
    """

    def __init__(self, index: LuceneIndex, path: Path) -> None:
        self._index, self._path, self.digest = index, path, _digest(path)
        self.passage: Callable[[int], Passage] = lru_cache(maxsize=4096)(self._passage)
        self._titles: dict[str, str] = {}  # of pages whose name is not their title

    def __len__(self) -> int:
        return len(self._index)

    def _passage(self, row: int) -> Passage:
        """The passage of a row.

        Raises:
            DataError: the stored text is not a passage.
        """
        name, raw = self._index.documents_at([row])[0]
        try:
            data: Any = parse_json(raw or "", where="its text")
            passage = read_document({**data, "id": name} if isinstance(data, dict) else data)
        except DataError as error:
            raise DataError(f"{self._path}: the entry {short_repr(name)} is not a passage: {error}") from error
        if passage.page != passage.title:
            self._titles[passage.page] = passage.title
            if len(self._titles) > MAX_TITLES:
                del self._titles[next(iter(self._titles))]
        return passage

    def row(self, passage_id: str) -> int | None:
        """The row of an id, or None."""
        return self._index.number_of(passage_id)

    def page_rows(self, page: str) -> tuple[int, ...]:
        """The rows of a page, in order, among the best 200 results for its name."""
        return tuple(sorted(row for row in self._near(self._titles.get(page, page)) if self.passage(row).page == page))

    def find_page(self, name: str) -> str | None:
        """The page that a page id, a passage id or a title names, among the results of a search for it."""
        if name in self._titles:
            return name
        row = self.row(name)
        if row is not None:
            return self.passage(row).page
        similar = [self.passage(row) for row in self._near(name)]
        named = [passage for passage in similar if name in (passage.page, passage.title)]
        return named[0].page if named else None

    def _near(self, name: str) -> list[int]:
        rows: list[int] = self._index.rank([name], PAGE_DEPTH)[0][0].tolist()
        return rows


def open_prebuilt(
    path: str | Path, corpus: Corpus | None = None, memory: str = "", threads: int = 1
) -> tuple[Corpus, LuceneIndex]:
    """Open an index that Anserini or pyserini made.

    Args:
        path: its folder.
        corpus: its passages, found by id; None where the index stores them.
        memory: limit of Java's heap; "" for the running limit, or 1g.
        threads: threads that search the queries of one call.

    Raises:
        DataError: Lucene cannot open it, it stores no passages, or the corpus is not the indexed one.
    """
    path = Path(path)
    if corpus is None:
        index = LuceneIndex(path, lambda _, number: number, memory=memory, threads=threads)
        if index.documents and index.documents_at([0])[0][1] is None:
            raise DataError(
                f"{path} contains no passages (it was built without -storeRaw); pass its passage file as the corpus"
            )
        return StoredCorpus(index, path), index
    index = LuceneIndex(path, row_by_id(corpus, path), len(corpus), memory, threads)
    _check_same(index, corpus, path)
    return corpus, index


def _check_same(index: LuceneIndex, corpus: Corpus, path: Path) -> None:
    numbers = range(0, index.documents, -(-index.documents // SAMPLED) or 1)
    for name, _ in index.documents_at(numbers):
        if name is None or corpus.row(name) is None:
            raise DataError(
                f"{path} has the document {short_repr(name)}, which is not in the corpus; they do not belong together"
            )
    if index.documents != len(corpus):
        blank = sum(not corpus.passage(row).contents.strip(BLANK) for row in range(len(corpus)))  # never indexed
        if index.documents != len(corpus) - blank:
            raise DataError(
                f"{path} has {index.documents} documents, the corpus {len(corpus)} passages; they do not belong together"
            )


MAX_SEGMENTS = 2**26  # bytes of Lucene's list of segments


def _digest(path: Path) -> str:
    """A digest of an index: its commit and the sizes of its files."""
    digest = blake2b(digest_size=16)
    for file in sorted(path.iterdir()):
        if file.is_file() and file.name != "write.lock":
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())
            if file.name.startswith("segments_"):
                digest.update(read_bytes(file, MAX_SEGMENTS))
    return digest.hexdigest()
