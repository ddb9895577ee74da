"""``creditflow data check webshop``: WebShop's files compared with the manifest of the released thousand products.

Goals are made from products and instructions in catalogue order, by one random stream for prices and price limits: a product that is
missing, changed or elsewhere changes the goals after it, and a further product changes what a search finds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from creditflow.envs.data_report import DataReport, Difference, PartReport
from creditflow.envs.errors import DataError
from creditflow.envs.webshop.catalogue.manifest import (
    Manifest,
    human_hash,
    instruction_hash,
    product_hash,
)
from creditflow.envs.webshop.catalogue.products import LoadReport, Product, read_products
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records
from creditflow.envs.webshop.catalogue.stock import ShopFiles, find_files
from creditflow.envs.webshop.goals.goals import usable_human_entries

__all__ = ["MANIFEST", "PUBLISHED", "check_shop"]

MANIFEST: Final = "small-v1"
PUBLISHED: Final = {"products": 1_000, "synthetic": 415, "human": 13}  # of upstream's `setup.sh -d small`
PANELS: Final = {
    "synthetic": "small-synthetic-v1",
    "human": "small-human-v1",
}  # whose goals are made of these instructions
KINDS: Final = ("same", "changed", "other order", "missing", "unusable", "extra")
NAMED_EXTRAS: Final = 1_000  # extras that a report names; the full catalogue has 1.18 million
_FETCH: Final = "WebShop's `setup.sh -d small` fetches the released files"


class _Part:
    """Counts and differences of one part while it is read."""

    def __init__(self, name: str, listed: int) -> None:
        self.name, self.listed = name, listed
        self.counts = dict.fromkeys(KINDS, 0)
        self.differences: list[Difference] = []

    def add(self, kind: str, name: str = "", detail: str = "") -> None:
        self.counts[kind] += 1
        if kind != "same" and (kind != "extra" or self.counts[kind] <= NAMED_EXTRAS):
            self.differences.append(Difference(self.name, kind, name if name.isprintable() else ascii(name), detail))

    def report(self, same_products: bool) -> PartReport:
        wrong = sum(self.counts[kind] for kind in ("changed", "other order", "missing", "unusable"))
        listed = not wrong
        published = PUBLISHED[self.name]
        complete = listed and self.listed + self.counts["extra"] == published
        verdict = self._verdict(listed, complete)
        if self.name in PANELS and listed:
            panel = f"panel='{PANELS[self.name]}'"
            verdict += f"; {panel} can be played" if same_products else f"; {panel} needs the released products too"
        return PartReport(self.name, published, self.listed, self.counts, listed, complete, verdict)

    def _verdict(self, listed: bool, whole: bool) -> str:
        unlisted = PUBLISHED[self.name] - self.listed
        if not listed:
            return f"cannot stand for the released {self.name}: goals, prices or search results differ; {_FETCH}"
        if whole:
            more = f"; {unlisted} more, as many as the release has, are not in the manifest" if unlisted else ""
            return f"can stand for the released {self.name}{more}"
        if self.counts["extra"] < unlisted:
            return (
                f"all that is listed is as released; {unlisted - self.counts['extra']} of the release are missing, which are "
                "not in the manifest: goals differ from the original's"
            )
        return f"all that is listed is as released, with {self.counts['extra']:,} more: another catalogue; {_FETCH}"


def check_shop(
    folder: str | Path,
    manifest: Manifest,
    parts: Collection[str] = tuple(PUBLISHED),
    watch: Callable[[Iterator[Product]], Iterator[Product]] = iter,
) -> DataReport:
    """Compare WebShop's files with a manifest; one pass over the products, whatever their number.

    Args:
        folder: holds the files; see ``find_files``.
        manifest: what they should be.
        parts: names of ``PUBLISHED`` to report.
        watch: receives the products as they are read and yields them; shows progress.

    Raises:
        DataError: a file is missing, truncated or not JSON.
    """
    files = find_files(folder)
    entries = {asin: entry for asin, entry in stream_items(files.attributes) if asin in manifest.products}
    by_name = {
        "products": _products(files, entries, manifest, watch),
        "synthetic": _synthetic(entries, manifest),
        "human": _human(files, manifest),
    }
    chosen = [by_name[name] for name in PUBLISHED if name in parts]
    differences = [
        difference
        for checked in chosen
        for difference in sorted(checked.differences, key=lambda difference: KINDS.index(difference.kind))
    ]
    same_products = by_name["products"].report(False).published_complete
    reports = [checked.report(same_products) for checked in chosen]
    return DataReport("webshop", MANIFEST, str(folder), reports, differences)


def _products(
    files: ShopFiles,
    entries: Mapping[str, Any],
    manifest: Manifest,
    watch: Callable[[Iterator[Product]], Iterator[Product]],
) -> _Part:
    products, report, order = _Part("products", len(manifest.products)), LoadReport(), list[str]()
    for product in watch(read_products(stream_records(files.items), entries, report)):
        expected = manifest.products.get(product.asin)
        if expected is None:
            products.add("extra", product.asin)
            continue
        order.append(product.asin)
        same = product_hash(product) == expected
        products.add(
            "same" if same else "changed", product.asin, "" if same else "other texts, prices, options or attributes"
        )
    present = set(order)
    for asin in manifest.products:
        if asin not in present:
            products.add("missing", asin)
    _add_skipped(products, report)
    for was, asin in zip(order, (asin for asin in manifest.products if asin in present), strict=True):
        if was != asin:
            products.add("other order", was, f"where {asin} should be: prices, price limits and goal numbers differ")
            break
    return products


def _synthetic(entries: Mapping[str, Any], manifest: Manifest) -> _Part:
    synthetic = _Part("synthetic", len(manifest.synthetic))
    for asin in manifest.products:
        expected = manifest.synthetic.get(asin, "")
        try:
            digest = instruction_hash(entries.get(asin, {}))
        except DataError as error:
            synthetic.add("unusable", asin, str(error))
            continue
        if digest or expected:
            kind = "missing" if not digest else "extra" if not expected else "same" if digest == expected else "changed"
            synthetic.add(kind, asin)
    return synthetic


def _human(files: ShopFiles, manifest: Manifest) -> _Part:
    human, report = _Part("human", sum(map(len, manifest.human.values()))), LoadReport()
    items = stream_items(files.human) if files.human else ()
    entries = usable_human_entries(((asin, item) for asin, item in items if asin in manifest.products), report)
    for asin in manifest.products:
        expected = list(manifest.human.get(asin, ()))
        actual = [human_hash(entry) for entry in entries.get(asin, ())]
        same = [digest for digest in expected if digest in actual]
        unmatched = len(actual) - len(same)
        for number, digest in enumerate(sorted(expected, key=lambda item: item not in same)):
            changed = number - len(same) < unmatched
            human.add("same" if digest in same else "changed" if changed else "missing", asin)
        for _ in range(unmatched - (len(expected) - len(same))):
            human.add("extra", asin)
    _add_skipped(human, report)
    return human


def _add_skipped(part: _Part, report: LoadReport) -> None:
    for reason, count in report.skipped.items():
        for _ in range(count):
            part.add("unusable", report.examples[reason], reason)
