"""An index folder on disk: passages and BM25 postings, memory-mapped, checked when opened.

Passages stay in one JSON lines file and are read by offset; ids and pages are found by bisection over sorted orders, so
memory does not grow with the corpus.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np

from creditflow.envs.bm25.index import BM25, ranks_of
from creditflow.envs.bm25.stored import IndexWriter, stored_index
from creditflow.envs.errors import DataError
from creditflow.envs.sealed_folder import SealedFolder, new_folder, seal
from creditflow.envs.wikisearch.documents import read_document, write_document
from creditflow.envs.wikisearch.retrieval import Passage

__all__ = ["DiskCorpus", "open_store", "write_store"]

FORMAT: Final = "wikisearch-index/2"
ORDERS: Final = ("by_id", "by_page", "by_title")  # int32 (N,): rows in the order of (what it names, row)
RANKS: Final = "id_ranks.i4"


class DiskCorpus:
    """Passages of an index folder.

    Args:
        files: the folder.

    Raises:
        DataError: its files do not fit together.
    """

    def __init__(self, files: SealedFolder) -> None:
        self._lines = files.blob("passages", ".jsonl")
        self._orders = {name: files.array(f"{name}.i4", "<i4") for name in ORDERS}
        self.digest: str = files.header["digest"]
        for name, order in self._orders.items():
            if len(order) != len(self):
                raise DataError(f"{files.path}: {name} has {len(order)} rows, expected {len(self)}; {files.remedy}")

    def __len__(self) -> int:
        return len(self._lines)

    def passage(self, row: int) -> Passage:
        """The passage of a row.

        Raises:
            DataError: the line is damaged.
        """
        try:
            return read_document(json.loads(self._lines[row]))
        except ValueError as error:
            raise DataError(f"index: passage {row} is damaged, build the index again: {error}") from error

    def _bisect(self, order: str, key: Callable[[Passage], str], value: str) -> tuple[int, ...]:
        rows = self._orders[order]
        at = bisect_left(range(len(rows)), value, key=lambda i: key(self.passage(int(rows[i]))))
        found = []
        while at < len(rows) and key(self.passage(int(rows[at]))) == value:
            found.append(int(rows[at]))
            at += 1
        return tuple(found)

    def row(self, passage_id: str) -> int | None:
        """The row of an id, or None."""
        found = self._bisect("by_id", lambda passage: passage.id, passage_id)
        return found[0] if found else None

    def page_rows(self, page: str) -> tuple[int, ...]:
        """The rows of a page, in order."""
        return self._bisect("by_page", lambda passage: passage.page, page)

    def find_page(self, name: str) -> str | None:
        """The page that a page id, a passage id or a title names."""
        if self.page_rows(name):
            return name
        row = self.row(name)
        if row is None:
            row = next(iter(self._bisect("by_title", lambda passage: passage.title, name)), None)
        return None if row is None else self.passage(row).page


def write_store(path: str | Path, passages: Iterable[Passage]) -> None:
    """Index passages into a new folder; it appears under its name only when it is complete.

    Passages and postings are written as they come; memory holds the vocabulary, ids, pages and titles.

    Raises:
        DataError: the folder exists, or an id occurs twice.
    """
    path = Path(path)
    if path.exists():
        raise DataError(f"{path} exists: name a new folder, or remove it first")
    with new_folder(path) as folder:
        _fill(folder, passages)


def _fill(folder: Path, passages: Iterable[Passage]) -> None:
    ids: list[str] = []
    pages: list[str] = []
    titles: list[str] = []
    offsets = [0]
    digest = blake2b(digest_size=16)
    with closing(IndexWriter(folder)) as index:
        with (folder / "passages.jsonl").open("wb") as out:
            for passage in passages:
                line = json.dumps(write_document(passage), ensure_ascii=False).encode() + b"\n"
                out.write(line)
                offsets.append(offsets[-1] + len(line))
                digest.update(json.dumps([passage.id, passage.page, passage.contents]).encode("ascii"))
                ids.append(passage.id)
                pages.append(passage.page)
                titles.append(passage.title)
                index.add(passage.contents.lower())
        index.finish()
    if len(set(ids)) != len(ids):
        raise DataError("passage ids must be unique; one occurs twice")
    np.array(offsets, "<i8").tofile(folder / "passages.offsets")
    for name, keys in zip(ORDERS, (ids, pages, titles), strict=True):
        np.array(sorted(range(len(keys)), key=keys.__getitem__), "<i4").tofile(folder / f"{name}.i4")
    ranks_of(ids).astype("<i4").tofile(folder / RANKS)
    seal(folder, FORMAT, {"digest": digest.hexdigest()})


def open_store(path: str | Path) -> tuple[DiskCorpus, BM25]:
    """Open an index folder.

    Raises:
        DataError: what is missing or damaged.
    """
    files = SealedFolder(path, FORMAT, "build the index again")
    return DiskCorpus(files), stored_index(files, files.array(RANKS, "<i4"))
