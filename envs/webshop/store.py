"""A catalogue on disk: memory-mapped arrays and compressed products, opened in a moment and shared by processes.

A store is a folder with ``header.json`` and the files it lists. The header carries a checksum of itself and, for every
file, its length and checksum; header and lengths are verified on every opening, contents of files up to ``CHECKED``
bytes too, and those of larger ones by ``verify_store``. There is no pickle: arrays are raw little-endian numbers, texts
are UTF-8, products JSON.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.webshop.bm25 import BM25
from creditflow.envs.webshop.products import Product

__all__ = ["FORMAT", "Blob", "StoreFiles", "StoredProducts", "is_store", "stored_index", "verify_store"]

FORMAT: Final = "creditflow-webshop-store/1"
HEADER: Final = "header.json"
CHECKED: Final = 1 << 26  # bytes: larger files are checksummed on demand only
_CHUNK: Final = 1 << 22


def is_store(path: str | Path) -> bool:
    """Whether the folder looks like a store."""
    return (Path(path) / HEADER).is_file()


def checksum(path: Path) -> str:
    """blake2b-128 of a file, read piece by piece."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def seal(header: dict[str, Any]) -> str:
    """The header as JSON text with its own checksum in it."""
    body = {key: value for key, value in header.items() if key != "checksum"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    body["checksum"] = hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()
    return json.dumps(body, sort_keys=True, indent=1)


class StoreFiles:
    """A verified store: its header, and its files as arrays.

    Args:
        path: the folder.

    Raises:
        DataError: no store, of another format, or damaged; says which file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.header = self._read_header()
        for name, entry in self.header["files"].items():
            self._check(name, entry)

    def _read_header(self) -> dict[str, Any]:
        try:
            header = json.loads((self.path / HEADER).read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path}: not a WebShop store, its {HEADER} cannot be read ({error})") from error
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise DataError(f"{self.path}: expected a store of format {FORMAT!r}; import the data again")
        if json.loads(seal(header))["checksum"] != header.get("checksum"):
            raise DataError(f"{self.path}: {HEADER} was changed or damaged; import the data again")
        return header

    def _check(self, name: str, entry: dict[str, Any]) -> None:
        path = self.path / name
        if Path(name).name != name or not path.is_file():
            raise DataError(f"{self.path}: the file {name!r} is missing; import the data again")
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise DataError(f"{path}: has {size} bytes, expected {entry['bytes']}; import the data again")
        if size <= CHECKED:
            self.check_content(name)

    def check_content(self, name: str) -> None:
        """Compare a file with its checksum.

        Raises:
            DataError: they differ.
        """
        if checksum(self.path / name) != self.header["files"][name]["blake2b"]:
            raise DataError(f"{self.path / name}: its content is damaged (checksum differs); import the data again")

    def array(self, name: str, dtype: str) -> NDArray[Any]:
        """A file of raw numbers, memory-mapped and read-only."""
        path = self.path / name
        if path.stat().st_size == 0:
            return np.empty(0, dtype)
        return np.memmap(path, dtype=dtype, mode="r")

    def blob(self, name: str) -> Blob:
        """A file of byte strings, with its offsets."""
        return Blob(self.path / f"{name}.bin", self.array(f"{name}.offsets", "<i8"))


def verify_store(path: str | Path) -> dict[str, Any]:
    """Check every byte of a store; returns its header.

    Raises:
        DataError: what is damaged.
    """
    files = StoreFiles(path)
    for name in files.header["files"]:
        files.check_content(name)
    return files.header


class Blob:
    """Byte strings in one memory-mapped file.

    Args:
        path: the file.
        offsets: int64 (n + 1,): where each begins.
    """

    def __init__(self, path: Path, offsets: NDArray[np.int64]) -> None:
        self._offsets = offsets
        with path.open("rb") as file:
            self._map: bytes | mmap.mmap = (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
            )

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, i: int) -> bytes:
        if not 0 <= i < len(self):
            raise IndexError(i)
        return self._map[int(self._offsets[i]) : int(self._offsets[i + 1])]


PRODUCT_FIELDS: Final = tuple(field.name for field in fields(Product))


def pack_product(product: Product, extra: dict[str, Any]) -> bytes:
    """A product as compressed JSON: its fields in order, then what its goals need."""
    values = [getattr(product, name) for name in PRODUCT_FIELDS]
    return zlib.compress(json.dumps([*values, extra], separators=(",", ":")).encode("ascii"), 6)


def unpack_product(data: bytes) -> tuple[Product, dict[str, Any]]:
    """What ``pack_product`` packed.

    Raises:
        DataError: the bytes are damaged.
    """
    try:
        *values, extra = json.loads(zlib.decompress(data))
        record = dict(zip(PRODUCT_FIELDS, values, strict=True))
        for name in ("bullets", "prices", "attributes"):
            record[name] = tuple(record[name])
        record["options"] = tuple((name, tuple(choices)) for name, choices in record["options"])
        return Product(**record), extra
    except (zlib.error, ValueError, TypeError) as error:
        raise DataError(f"a product of the store is damaged ({error}); import the data again") from error


class StoredProducts:
    """A ``ProductStore`` over a store's files. Only the offsets and what is asked for is read."""

    def __init__(self, files: StoreFiles) -> None:
        self.digest: str = files.header["digest"]
        self._blob = files.blob("products")
        self._asins = files.array("asins.bin", f"S{files.header['asin_bytes']}")
        self._order = files.array("asin_order.i4", "<i4")
        self._prices = files.array("prices.f8", "<f8")
        self._queries = _Groups(files, "queries")
        self._categories = _Groups(files, "categories")

    def __len__(self) -> int:
        return len(self._asins)

    def product(self, row: int) -> Product:
        """The product in this row."""
        return self.packed(row)[0]

    def packed(self, row: int) -> tuple[Product, dict[str, Any]]:
        """The product and what its goals need."""
        return unpack_product(self._blob[row])

    def row(self, asin: str) -> int | None:
        """The row of a product id, or None."""
        wanted = asin.encode("utf-8", "surrogatepass")
        place = bisect_left(self._order, wanted, key=lambda row: bytes(self._asins[row]))
        if place == len(self._order):
            return None
        row = int(self._order[place])
        return row if bytes(self._asins[row]) == wanted else None

    def asin(self, row: int) -> str:
        """The product id in this row."""
        return bytes(self._asins[row]).decode("utf-8", "surrogatepass")

    def price(self, row: int) -> float:
        """The price that counts, in dollars."""
        return float(self._prices[row])

    def rows_of_query(self, query: str) -> Sequence[int]:
        """Rows collected under a search phrase."""
        return self._queries.rows(query)

    def rows_of_category(self, category: str) -> Sequence[int]:
        """Rows of a department."""
        return self._categories.rows(category)


class _Groups:
    """Rows by name: ``<name>.json`` (the names), ``<name>_starts.i8`` and ``<name>_rows.i4``."""

    def __init__(self, files: StoreFiles, name: str) -> None:
        names = json.loads((files.path / f"{name}.json").read_text(encoding="ascii"))
        self._numbers = {text: i for i, text in enumerate(names)}
        self._starts = files.array(f"{name}_starts.i8", "<i8")
        self._rows = files.array(f"{name}_rows.i4", "<i4")

    def rows(self, name: str) -> Sequence[int]:
        number = self._numbers.get(name)
        if number is None:
            return ()
        found: list[int] = self._rows[self._starts[number] : self._starts[number + 1]].tolist()
        return found


class _StoredVocabulary:
    """Terms in sorted order; a lookup is a binary search on disk."""

    def __init__(self, terms: Blob) -> None:
        self._terms = terms

    def get(self, term: str) -> int | None:
        """The term's number, or None if no document has it."""
        wanted = term.encode("utf-8", "surrogatepass")
        place = bisect_left(self._terms, wanted)
        return place if place < len(self._terms) and self._terms[place] == wanted else None

    def __len__(self) -> int:
        return len(self._terms)


def stored_index(files: StoreFiles) -> BM25:
    """The search index of a store."""
    return BM25(
        _StoredVocabulary(files.blob("terms")),
        files.array("postings_starts.i8", "<i8"),
        files.array("postings_rows.i4", "<i4"),
        files.array("postings_weights.f4", "<f4"),
        files.array("asin_ranks.i4", "<i4"),
    )
