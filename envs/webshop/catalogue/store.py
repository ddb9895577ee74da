"""A catalogue on disk: memory-mapped arrays and compressed products, shared by processes."""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.files.checksummed_folder import ChecksummedFolder
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import parse_json, read_json
from creditflow.envs.reading.limits import MAX_RECORD
from creditflow.envs.reading.streams import decompress_bytes
from creditflow.envs.webshop.catalogue.products import Product

__all__ = ["FORMAT", "StoredProducts", "open_files", "pack_product", "verify_store"]

MAX_ASIN_BYTES: Final = 40  # ten characters of up to four bytes
FORMAT: Final = "creditflow-webshop-store/1"


def open_files(path: str | Path) -> ChecksummedFolder:
    """The files of a store.

    Raises:
        DataError: not a store, or a damaged one.
    """
    return ChecksummedFolder(path, FORMAT, "import the data again")


def verify_store(path: str | Path) -> dict[str, Any]:
    """Check every byte of a store; returns its header.

    Raises:
        DataError: a damaged file.
    """
    files = open_files(path)
    files.verify()
    return files.header


PRODUCT_FIELDS: Final = tuple(field.name for field in fields(Product))
_TEXTS: Final = tuple(field.name for field in fields(Product) if field.type == "str")


def pack_product(product: Product, extra: dict[str, Any]) -> bytes:
    """A product as compressed JSON: its fields in order, then the data of its goals."""
    values = [getattr(product, name) for name in PRODUCT_FIELDS]
    return zlib.compress(json.dumps([*values, extra], separators=(",", ":")).encode("ascii"), 6)


def unpack_product(data: bytes) -> tuple[Product, dict[str, Any]]:
    """The product and the data of its goals, from ``pack_product``.

    Raises:
        DataError: the bytes are damaged.
    """
    with loading("a product of the store is damaged (import the data again)"):
        *values, extra = parse_json(decompress_bytes(data, MAX_RECORD, "its bytes"), where="its text")
        record = dict(zip(PRODUCT_FIELDS, values, strict=True))
        for name, kind in (("bullets", str), ("prices", float), ("attributes", str)):
            record[name] = _several(record[name], kind)
        record["options"] = tuple((_text(name), _several(choices, str)) for name, choices in record["options"])
        for name in _TEXTS:
            _text(record[name])
        return Product(**record), dict(extra)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {short_repr(value)}")
    return value


def _several(values: Any, kind: type) -> tuple[Any, ...]:
    """A list of texts or of numbers, as a tuple."""
    if not isinstance(values, list) or not all(type(v) in ((str,) if kind is str else (int, float)) for v in values):
        raise TypeError(f"expected a list of {kind.__name__}, got {short_repr(values)}")
    return tuple(values)


class StoredProducts:
    """A ``ProductStore`` over a store's files, read on demand."""

    def __init__(self, files: ChecksummedFolder) -> None:
        self.digest: str = files.fact("digest", str)
        self._blob = files.blob("products")
        count, width = len(self._blob), files.fact("asin_bytes", int)
        if not 0 < width <= MAX_ASIN_BYTES:
            raise DataError(
                f"{files.path}: asin_bytes must lie in 1 to {MAX_ASIN_BYTES}, got {width}; {files.how_to_fix}"
            )
        self._asins = files.array("asins.bin", f"S{width}")
        self._order = files.rows("asin_order.i4", count)
        self._prices = files.array("prices.f8", "<f8")
        if not len(self._asins) == len(self._order) == len(self._prices) == count or not count:
            raise DataError(f"{files.path}: ids, prices and products differ in number; {files.how_to_fix}")
        ordered = self._asins[self._order]
        if (ordered[1:] <= ordered[:-1]).any():
            raise DataError(
                f"{files.path}: ids must be unique, and asin_order.i4 must list them in ascending order; {files.how_to_fix}"
            )
        if not np.isfinite(self._prices).all():
            raise DataError(f"{files.path}: a price is not a number; {files.how_to_fix}")
        self._queries = _Groups(files, "queries", count)
        self._categories = _Groups(files, "categories", count)

    def __len__(self) -> int:
        return len(self._asins)

    def product(self, row: int) -> Product:
        """The product in this row."""
        return self.packed(row)[0]

    def packed(self, row: int) -> tuple[Product, dict[str, Any]]:
        """The product and the data of its goals."""
        return unpack_product(self._blob[row])

    def row(self, asin: str) -> int | None:
        """The row of a product id, or None."""
        key = asin.encode("utf-8", "surrogatepass")
        position = bisect_left(self._order, key, key=lambda row: bytes(self._asins[row]))
        if position == len(self._order):
            return None
        row = int(self._order[position])
        return row if bytes(self._asins[row]) == key else None

    def asin(self, row: int) -> str:
        """The product id in this row."""
        with loading(f"the id of product {row} is damaged (import the data again)"):
            return bytes(self._asins[row]).decode("utf-8", "surrogatepass")

    def price(self, row: int) -> float:
        """The price for the reward, in dollars."""
        return float(self._prices[row])

    def rows_of_query(self, query: str) -> Sequence[int]:
        """Rows collected under a search phrase."""
        return self._queries.rows(query)

    def rows_of_category(self, category: str) -> Sequence[int]:
        """Rows of a department."""
        return self._categories.rows(category)


class _Groups:
    """Rows by name: ``<name>.json`` (the names), ``<name>_starts.i8`` and ``<name>_rows.i4``."""

    def __init__(self, files: ChecksummedFolder, name: str, products: int) -> None:
        names = read_json(files.file(f"{name}.json"))
        if not isinstance(names, list) or not all(isinstance(text, str) for text in names):
            raise DataError(f"{files.path}: {name}.json must be a list of texts; {files.how_to_fix}")
        self._numbers = {text: i for i, text in enumerate(names)}
        self._rows = files.rows(f"{name}_rows.i4", products)
        self._starts = files.offsets(f"{name}_starts.i8", len(self._rows))
        if len(self._starts) != len(names) + 1:
            raise DataError(
                f"{files.path}: {name}_starts.i8 must have one entry more than {name}.json; {files.how_to_fix}"
            )

    def rows(self, name: str) -> Sequence[int]:
        number = self._numbers.get(name)
        if number is None:
            return ()
        rows: list[int] = self._rows[self._starts[number] : self._starts[number + 1]].tolist()
        return rows
