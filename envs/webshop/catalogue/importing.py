"""``creditflow data import webshop PATH``: check WebShop's files, report what is missing, and build a store from them.

One pass over the products, whatever their number; memory holds the attribute file's entries and a few numbers per
product. The store is written to a temporary folder and renamed when it is complete.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.atomic import new_folder
from creditflow.envs.files.checksummed_folder import write_blob, write_checksums
from creditflow.envs.text.bm25.index import ranks_of
from creditflow.envs.text.bm25.stored import IndexWriter
from creditflow.envs.webshop.catalogue.products import LoadReport, Product, read_products, wanted_attributes
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records
from creditflow.envs.webshop.catalogue.stock import ShopFiles, find_files
from creditflow.envs.webshop.catalogue.store import FORMAT, pack_product
from creditflow.envs.webshop.goals.goals import (
    Mersenne,
    attribute_weight,
    price_cap,
    shuffled_numbers,
    usable_human_entries,
)

__all__ = ["ImportReport", "import_webshop"]

GOAL_SEED: Final = 233
_GOAL_KEYS: Final = ("instruction", "instruction_attributes")


@dataclass(frozen=True)
class ImportReport:
    """The result of an import.

    Attributes:
        path: the store.
        products: number of products.
        goals: kind -> number of goals.
        skipped: reason -> number of records skipped.
        notes: what is missing or unusual, in sentences.
        bytes: size of the store.
    """

    path: Path
    products: int
    goals: Mapping[str, int]
    skipped: Mapping[str, int]
    notes: tuple[str, ...]
    bytes: int


class _Entries(Mapping[str, Any]):
    """The attribute file's entries, kept as JSON text, which takes a fraction of the memory."""

    def __init__(self, path: Path) -> None:
        self._texts = {asin: json.dumps(entry).encode("ascii") for asin, entry in stream_items(path)}

    def __getitem__(self, asin: str) -> Any:
        return json.loads(self._texts[asin])

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, asin: object) -> bool:
        return asin in self._texts

    def __len__(self) -> int:
        return len(self._texts)


class _Names:
    """Numbers names in order of appearance, and writes the rows of each."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._codes = array("i")

    def add(self, name: str) -> None:
        self._codes.append(self._numbers.setdefault(name, len(self._numbers)))

    def write(self, folder: Path, name: str) -> None:
        codes = np.array(self._codes, np.int32)
        (folder / f"{name}.json").write_text(json.dumps(list(self._numbers)), encoding="ascii")
        starts = np.zeros(len(self._numbers) + 1, "<i8")
        np.cumsum(np.bincount(codes, minlength=len(self._numbers)), out=starts[1:])
        starts.tofile(folder / f"{name}_starts.i8")
        np.argsort(codes, kind="stable").astype("<i4").tofile(folder / f"{name}_rows.i4")


class _Builder:
    """Writes the files of a store from products in order."""

    def __init__(self, folder: Path, entries: Mapping[str, Any], human: Mapping[str, Any], seed: int) -> None:
        self.folder, self.entries, self.human = folder, entries, human
        self.seed, self.rng = seed, Mersenne(seed)
        self.index = IndexWriter(folder)
        self.queries, self.categories = _Names(), _Names()
        self.asins: list[str] = []
        self.prices, self.offsets = array("d"), array("q", [0])
        self.digest = hashlib.blake2b(digest_size=16)
        self.blob = (folder / "products.bin").open("wb")
        self.synthetic_rows, self.synthetic_counts = array("i"), array("q")
        self.human_rows, self.human_texts = array("i"), list[bytes]()

    def add(self, product: Product) -> None:
        row = len(self.asins)
        price = product.prices[0] if len(product.prices) == 1 else self.rng.uniform(*product.prices)
        entry = self.entries.get(product.asin, {})
        attributes = wanted_attributes(entry)
        extra = {key: entry[key] for key in _GOAL_KEYS} if attributes else {}
        packed = pack_product(product, extra)
        self.blob.write(packed)
        self.offsets.append(self.offsets[-1] + len(packed))
        self.asins.append(product.asin)
        self.prices.append(price)
        self.digest.update(repr((product, price)).encode("utf-8", "surrogatepass"))
        self.queries.add(product.query)
        self.categories.add(product.category)
        self.index.add(product.document())
        combinations = prod(len(values) for _, values in product.options)
        if attributes and combinations:
            self.synthetic_rows.append(row)
            self.synthetic_counts.append(combinations)
        for text in self.human.get(product.asin, ()):
            self.human_rows.append(row)
            self.human_texts.append(json.dumps(text).encode("ascii"))

    def close(self) -> None:
        """Close the open files, finished or not."""
        self.blob.close()
        self.index.close()

    def finish(self) -> dict[str, int]:
        """Write everything but the header; returns the number of goals by kind."""
        self.blob.close()
        self.index.finish()
        folder = self.folder
        np.array(self.offsets, "<i8").tofile(folder / "products.offsets")
        ids = np.array([asin.encode("utf-8", "surrogatepass") for asin in self.asins])
        ids.tofile(folder / "asins.bin")
        np.argsort(ids, kind="stable").astype("<i4").tofile(folder / "asin_order.i4")
        ranks_of(self.asins).astype("<i4").tofile(folder / "asin_ranks.i4")
        np.array(self.prices, "<f8").tofile(folder / "prices.f8")
        self.queries.write(folder, "queries")
        self.categories.write(folder, "categories")
        after_prices = self.rng.getstate()
        counts = {"synthetic": self._synthetic()}
        self.rng.setstate(after_prices)
        if self.human:
            counts["human"] = self._human()
        return {kind: count for kind, count in counts.items() if count}

    def _synthetic(self) -> int:
        carriers: Counter[str] = Counter()
        attribute_sets = [wanted_attributes(self.entries[self.asins[row]]) for row in self.synthetic_rows]
        for attributes, count in zip(attribute_sets, self.synthetic_counts, strict=True):
            for attribute in attributes:
                carriers[attribute] += count
        weights = [attribute_weight(attributes, carriers) for attributes in attribute_sets]
        return self._write_goals("synthetic", self.synthetic_rows, self.synthetic_counts, weights)

    def _human(self) -> int:
        write_blob(self.folder, "human_texts", self.human_texts)
        ones = array("q", [1]) * len(self.human_rows)
        return self._write_goals("human", self.human_rows, ones, [1.0] * len(ones))

    def _write_goals(self, kind: str, rows: array[int], counts: array[int], weights: list[float]) -> int:
        starts = np.zeros(len(counts) + 1, "<i8")
        np.cumsum(np.array(counts, np.int64), out=starts[1:])
        caps = [price_cap(self.prices[row], self.rng) for row in rows]
        starts.tofile(self.folder / f"{kind}_starts.i8")
        np.array(rows, "<i4").tofile(self.folder / f"{kind}_rows.i4")
        np.array(caps, "<f8").tofile(self.folder / f"{kind}_caps.f8")
        np.array(weights, "<f8").tofile(self.folder / f"{kind}_weights.f8")
        for goal_seed in {GOAL_SEED, self.seed}:  # the orders of the upstream preset and of the trainers' presets
            shuffled_numbers(int(starts[-1]), goal_seed).tofile(self.folder / f"{kind}_order_{goal_seed}.i4")
        return int(starts[-1])


def import_webshop(
    source: ShopFiles | str | Path,
    out: str | Path,
    *,
    seed: int = 42,
    strict: bool = False,
    replace: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Verify WebShop's files and build a store from them.

    Args:
        source: the files, or the folder that holds them.
        out: the store's folder; must not exist, without ``replace``.
        seed: random seed of prices and price caps, and of one of the two stored orders of goals.
        strict: raise an error for malformed records instead of skipping them.
        replace: replace an existing folder.
        progress: called with the number of products written so far, every ten thousand.

    Raises:
        DataError: a file is missing, truncated or malformed.
        ConfigError: ``out`` exists, without ``replace``.
    """
    files = source if isinstance(source, ShopFiles) else find_files(source)
    out = Path(out)
    if out.exists() and not replace:
        raise ConfigError(f"{out} already exists; remove it, or choose another folder")
    report = LoadReport()
    with new_folder(out, replace=replace) as temporary:
        human = usable_human_entries(stream_items(files.human), report, strict=strict) if files.human else {}
        with closing(_Builder(temporary, _Entries(files.attributes), human, seed)) as builder:
            for product in read_products(stream_records(files.items), builder.entries, report, strict=strict):
                builder.add(product)
                if progress is not None and report.products % 10_000 == 0:
                    progress(report.products)
            if not builder.asins:
                raise DataError(f"{files.items} contains no product ({report})")
            goals = builder.finish()
        size = _seal(temporary, builder, goals, report, seed)
    notes = _notes(files, goals, report, builder)
    return ImportReport(out, report.products, goals, dict(report.skipped), notes, size)


def _seal(folder: Path, builder: _Builder, goals: dict[str, int], report: LoadReport, seed: int) -> int:
    facts = {
        "products": report.products,
        "asin_bytes": max(len(asin.encode("utf-8", "surrogatepass")) for asin in builder.asins),
        "digest": builder.digest.hexdigest(),
        "seed": seed,
        "goals": goals,
        "skipped": dict(report.skipped),
    }
    return write_checksums(folder, FORMAT, facts)


def _notes(files: ShopFiles, goals: dict[str, int], report: LoadReport, builder: _Builder) -> tuple[str, ...]:
    notes = [
        f"{count} records left out: {reason} (first: {report.examples[reason]})"
        for reason, count in report.skipped.items()
    ]
    unknown = sum(1 for asin in builder.asins if asin not in builder.entries)
    if unknown:
        notes.append(f"{unknown} products have no entry in {files.attributes.name}; they get a placeholder attribute")
    if "synthetic" not in goals:
        notes.append(f"no product has an instruction in {files.attributes.name}: there are no synthetic goals")
    if files.human is None:
        notes.append("items_human_ins.json was not found: there are no human goals")
    elif "human" not in goals:
        notes.append(f"no instruction of {files.human.name} belongs to these products: there are no human goals")
    return tuple(notes)
