"""A catalogue on disk: memory-mapped arrays and compressed products, opened in a moment and shared by processes."""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError
from creditflow.envs.sealed_folder import SealedFolder
from creditflow.envs.webshop.products import Product

__all__ = ["FORMAT", "StoredProducts", "open_files", "pack_product", "verify_store"]

FORMAT: Final = "creditflow-webshop-store/1"


def open_files(path: str | Path) -> SealedFolder:
    """The files of a store.

    Raises:
        DataError: no store, or damaged.
    """
    return SealedFolder(path, FORMAT, "import the data again")


def verify_store(path: str | Path) -> dict[str, Any]:
    """Check every byte of a store; returns its header.

    Raises:
        DataError: what is damaged.
    """
    files = open_files(path)
    files.verify()
    return files.header


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

    def __init__(self, files: SealedFolder) -> None:
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

    def __init__(self, files: SealedFolder, name: str) -> None:
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
