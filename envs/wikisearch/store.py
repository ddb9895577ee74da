"""An index folder on disk: passages and BM25 arrays, memory-mapped, checked when opened.

``meta.json`` names every file with its size and blake2b digest. Passages stay in one JSON lines file and are read by
offset; ids and pages are found by bisection over sorted orders, so memory does not grow with the corpus (the term
table does).
"""

from __future__ import annotations

import json
import os
import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.bm25 import BM25, build_bm25
from creditflow.envs.wikisearch.documents import read_document, write_document
from creditflow.envs.wikisearch.retrieval import Passage

__all__ = ["DiskCorpus", "is_store", "open_store", "write_store"]

FORMAT: Final = "wikisearch-index/1"
ARRAYS: Final = {
    "offsets": np.int64,  # (N + 1,): where each passage's line begins in passages.jsonl
    "by_id": np.int32,  # (N,): rows in the order of ids
    "by_page": np.int32,  # (N,): rows in the order of (page, row)
    "by_title": np.int32,  # (N,): rows in the order of (title, row)
    "starts": np.int64,
    "rows": np.int32,
    "weights": np.float32,
    "ranks": np.int32,
}
SMALL: Final = 256 * 2**20  # folders up to this many bytes are verified by digest whenever they are opened


def is_store(path: str | Path) -> bool:
    """Whether the path is an index folder."""
    return (Path(path) / "meta.json").is_file()


class DiskCorpus:
    """Passages of an index folder.

    Args:
        lines: uint8, the memory-mapped ``passages.jsonl``.
        arrays: of ``ARRAYS``.
        digest: of the corpus.
    """

    def __init__(self, lines: NDArray[np.uint8], arrays: dict[str, NDArray[Any]], digest: str) -> None:
        self._lines, self._arrays, self.digest = lines, arrays, digest
        self._offsets: NDArray[np.int64] = arrays["offsets"]

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def passage(self, row: int) -> Passage:
        """The passage of a row.

        Raises:
            DataError: the line is damaged.
        """
        line = bytes(self._lines[self._offsets[row] : self._offsets[row + 1]])
        try:
            return read_document(json.loads(line))
        except ValueError as error:
            raise DataError(f"index: passage {row} is damaged, build the index again: {error}") from error

    def _bisect(self, order: str, key: Callable[[Passage], str], value: str) -> tuple[int, ...]:
        rows = self._arrays[order]
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

    Passages are written as they come; memory holds the postings, ids, pages and titles.

    Raises:
        DataError: the folder exists, or an id occurs twice.
    """
    path = Path(path)
    if path.exists():
        raise DataError(f"{path} exists: name a new folder, or remove it first")
    folder = path.with_name(f"{path.name}.tmp{os.getpid()}")
    folder.mkdir(parents=True)
    try:
        _fill(folder, passages)
        folder.rename(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _fill(folder: Path, passages: Iterable[Passage]) -> None:
    ids: list[str] = []
    pages: list[str] = []
    titles: list[str] = []
    offsets = [0]
    digest = blake2b(digest_size=16)

    def contents() -> Iterable[str]:
        with (folder / "passages.jsonl").open("wb") as out:
            for passage in passages:
                line = json.dumps(write_document(passage), ensure_ascii=False).encode() + b"\n"
                out.write(line)
                offsets.append(offsets[-1] + len(line))
                digest.update(json.dumps([passage.id, passage.page, passage.contents]).encode("ascii"))
                ids.append(passage.id)
                pages.append(passage.page)
                titles.append(passage.title)
                yield passage.contents

    index = build_bm25(contents(), ids)  # consumes contents(), which fills ids
    if len(set(ids)) != len(ids):
        raise DataError("passage ids must be unique; one occurs twice")
    arrays: dict[str, Any] = {
        "offsets": offsets,
        "by_id": sorted(range(len(ids)), key=ids.__getitem__),
        "by_page": sorted(range(len(ids)), key=pages.__getitem__),
        "by_title": sorted(range(len(ids)), key=titles.__getitem__),
        "starts": index.starts,
        "rows": index.rows,
        "weights": index.weights,
        "ranks": index.ranks,
    }
    for name, kind in ARRAYS.items():
        np.save(folder / f"{name}.npy", np.asarray(arrays[name], kind), allow_pickle=False)
    (folder / "terms.txt").write_text("\n".join(index.terms), encoding="utf-8", newline="\n")
    files = {file.name: {"bytes": file.stat().st_size, "blake2b": _file_digest(file)} for file in folder.iterdir()}
    meta = {"format": FORMAT, "passages": len(ids), "digest": digest.hexdigest(), "files": files}
    (folder / "meta.json").write_text(json.dumps(meta, indent=1), encoding="ascii")


def _file_digest(path: Path) -> str:
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def open_store(path: str | Path, *, verify: bool | None = None) -> tuple[DiskCorpus, BM25]:
    """Open an index folder.

    Args:
        path: of the folder.
        verify: compare every file with its digest; default: if the folder is smaller than 256 MiB. Sizes, types and
            lengths are always checked.

    Raises:
        DataError: what is missing or damaged.
    """
    path = Path(path)
    try:
        meta = json.loads((path / "meta.json").read_text(encoding="ascii"))
        if meta["format"] != FORMAT:
            raise DataError(f"{path}: index format {meta['format']!r}, expected {FORMAT!r}; build the index again")
        files = {str(name): (int(entry["bytes"]), str(entry["blake2b"])) for name, entry in meta["files"].items()}
        n, digest = int(meta["passages"]), str(meta["digest"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: meta.json is missing or damaged: {error!r}") from error
    expected = {f"{name}.npy" for name in ARRAYS} | {"passages.jsonl", "terms.txt"}
    if set(files) != expected:
        raise DataError(f"{path}: meta.json must name the files {sorted(expected)}, got {sorted(files)}")
    if verify is None:
        verify = sum(size for size, _ in files.values()) <= SMALL
    for name, (size, wanted) in files.items():
        file = path / name
        if not file.is_file() or file.stat().st_size != size or (verify and _file_digest(file) != wanted):
            raise DataError(f"{path}: {name} is missing or damaged; build the index again")
    arrays = {name: _array(path / f"{name}.npy", kind) for name, kind in ARRAYS.items()}
    terms = (path / "terms.txt").read_text(encoding="utf-8").split("\n")
    numbers = {term: i for i, term in enumerate(terms) if term}
    lengths = {"offsets": n + 1, "by_id": n, "by_page": n, "by_title": n, "ranks": n, "starts": len(numbers) + 1}
    for name, length in lengths.items():
        if len(arrays[name]) != length:
            raise DataError(f"{path}: {name} has {len(arrays[name])} entries, expected {length}")
    if not len(arrays["rows"]) == len(arrays["weights"]) == int(arrays["starts"][-1]):
        raise DataError(f"{path}: starts, rows and weights do not fit together; build the index again")
    lines = np.memmap(path / "passages.jsonl", np.uint8, "r") if n else np.zeros(0, np.uint8)
    index = BM25(numbers, arrays["starts"], arrays["rows"], arrays["weights"], arrays["ranks"])
    return DiskCorpus(lines, arrays, digest), index


def _array(path: Path, kind: type) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is no NumPy array: {error}") from error
    if array.dtype != np.dtype(kind) or array.ndim != 1:
        raise DataError(f"{path}: expected one axis of {np.dtype(kind)}, got {array.ndim} of {array.dtype}")
    return array
