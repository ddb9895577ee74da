"""``creditflow data check webshop`` and ``webshop-full``: WebShop's files compared with what is known of the release.

A manifest has a hash of every product and instruction of the released thousand, none of their texts. What is hashed is the
content as it is loaded (``products.py``, ``goals.py``): formatting of the JSON, keys that the shop never shows and the
picture's URL do not matter. Goals are not listed. They are made from products and instructions in catalogue order, by one
random stream for prices and price limits, so they are the same when products, instructions, their order and the seeds are; a
product that is missing, changed or elsewhere changes the goals after it, and a further product changes what a search finds.

Of the whole catalogue are published the number of products, 1,181,436, and the texts of the 12,087 human instructions, of
which the manifest lists 12,084 by hash, as the authors' baselines read them (lower case, without quotation marks). No hash of a
product is published, so the check counts the products and prints a digest of all of them in their order, with their
attributes and synthetic instructions: two copies with equal digests are the same catalogue, with the same prices and goals
for the same seeds. Files: ``items_shuffle.json`` (5.3 GB), ``items_ins_v2.json``, ``items_human_ins.json`` (5 MB), from
``setup.sh -d all``.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from creditflow.envs.data_report import DataReport, Difference, PartReport
from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.manifests import embedded_manifest
from creditflow.envs.tasks import content_id
from creditflow.envs.webshop.catalogue.products import LoadReport, Product, read_products, wanted_attributes
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records
from creditflow.envs.webshop.catalogue.stock import ShopFiles, find_files
from creditflow.envs.webshop.goals.goals import usable_human_entries

__all__ = [
    "FULL",
    "MANIFEST",
    "PUBLISHED",
    "PUBLISHED_FULL",
    "Manifest",
    "build_manifest",
    "check_full",
    "check_shop",
    "human_hash",
    "instruction_hash",
    "instruction_text_hash",
    "load_manifest",
    "load_texts",
    "product_hash",
    "write_manifest",
]

FORMAT: Final = 1
_HUMAN_KEYS: Final = ("instruction", "instruction_attributes", "instruction_options")


@dataclass(frozen=True, slots=True)
class Manifest:
    """Hashes of a catalogue with its instructions; each has 16 hex digits.

    Attributes:
        products: asin -> hash of the product, in catalogue order.
        synthetic: asin -> hash of its synthetic instruction, of those that have one.
        human: asin -> hashes of its human instructions.
    """

    products: Mapping[str, str]
    synthetic: Mapping[str, str]
    human: Mapping[str, Sequence[str]]


def _hash(content: Any) -> str:
    return content_id("", content)[1:17]


def product_hash(product: Product) -> str:
    """Return the hash of a product without its picture."""
    return _hash({key: value for key, value in asdict(product).items() if key != "image"})


def instruction_hash(entry: Any) -> str:
    """Return the hash of a synthetic instruction; "" if the entry has none that can be used."""
    attributes = wanted_attributes(entry) if isinstance(entry, Mapping) else ()
    return _hash([entry["instruction"], list(attributes)]) if attributes else ""


def human_hash(entry: Mapping[str, Any]) -> str:
    """Return the hash of a usable human instruction."""
    return _hash([entry[key] for key in _HUMAN_KEYS])


def build_manifest(source: ShopFiles) -> Manifest:
    """Return the manifest of WebShop's files.

    Raises:
        DataError: a malformed file or record.
    """
    report = LoadReport()
    entries: dict[str, Any] = dict(stream_items(source.attributes))
    products = list(read_products(stream_records(source.items), entries, report, strict=True))
    instructions = {product.asin: instruction_hash(entries.get(product.asin, {})) for product in products}
    human = usable_human_entries(stream_items(source.human), report, strict=True) if source.human else {}
    return Manifest(
        {product.asin: product_hash(product) for product in products},
        {asin: digest for asin, digest in instructions.items() if digest},
        {
            product.asin: [human_hash(entry) for entry in human[product.asin]]
            for product in products
            if product.asin in human
        },
    )


def write_manifest(path: str | Path, manifest: Manifest) -> None:
    """Write a manifest, one product per line: ``[asin, product, synthetic instruction or "", [human instructions]]``."""
    rows: Iterable[list[Any]] = (
        [asin, digest, manifest.synthetic.get(asin, ""), list(manifest.human.get(asin, ()))]
        for asin, digest in manifest.products.items()
    )
    with atomic_writer(path) as out:
        lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        out.write(f'{{"format_version":{FORMAT},"products":[\n{lines}\n]}}\n')


def load_manifest(name: str) -> Manifest:
    """Load an embedded manifest, such as "small-v1".

    Raises:
        DataError: the file violates the format.
    """
    rows = embedded_manifest("webshop", name, FORMAT)["products"]
    return Manifest(
        {asin: digest for asin, digest, _, _ in rows},
        {asin: digest for asin, _, digest, _ in rows if digest},
        {asin: digests for asin, _, _, digests in rows if digests},
    )


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
    """Compare WebShop's files with a manifest; one pass over any number of products.

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
            synthetic.add(_compared(digest, expected), asin)
    return synthetic


def _compared(digest: str, expected: str) -> str:
    if not digest:
        return "missing"
    if not expected:
        return "extra"
    return "same" if digest == expected else "changed"


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
            different = "changed" if changed else "missing"
            human.add("same" if digest in same else different, asin)
        for _ in range(unmatched - (len(expected) - len(same))):
            human.add("extra", asin)
    _add_skipped(human, report)
    return human


def _add_skipped(part: _Part, report: LoadReport) -> None:
    for reason, count in report.skipped.items():
        for _ in range(count):
            part.add("unusable", report.examples[reason], reason)


FULL: Final = "full-human-v1"
PUBLISHED_FULL: Final = {"products": 1_181_436, "human": 12_087}
HASH_LENGTH: Final = 10  # hex digits; by chance two of 12,087 texts are equal in one of 15,000 manifests
FULL_KINDS: Final = ("same", "found", "missing", "unusable", "extra")


def instruction_text_hash(text: str) -> str:
    """Return the hash of a human instruction without case, quotation marks and the full stop."""
    return content_id("", text.lower().replace('"', "").replace("'", "").strip(". \n"))[1 : 1 + HASH_LENGTH]


def load_texts() -> Counter[str]:
    """Return the hashes of the listed human instructions; some texts occur several times."""
    joined = "".join(embedded_manifest("webshop", FULL, FORMAT)["texts"])
    return Counter(joined[i : i + HASH_LENGTH] for i in range(0, len(joined), HASH_LENGTH))


def check_full(
    folder: str | Path,
    parts: Collection[str] = tuple(PUBLISHED_FULL),
    watch: Callable[[Iterator[Product]], Iterator[Product]] = iter,
) -> DataReport:
    """Check the whole catalogue in one pass over each file; memory contains product ids and the hashes of human instructions, no texts.

    Args:
        folder: holds the files; see ``find_files``.
        parts: names of ``PUBLISHED_FULL`` to report.
        watch: receives the products as they are read and yields them; shows progress.

    Raises:
        DataError: a file is missing, truncated or not JSON.
    """
    files = find_files(folder)
    reports: list[PartReport] = []
    differences: list[Difference] = []
    if "products" in parts:
        reports.append(_whole_products(files, differences, watch))
    if "human" in parts:
        reports.append(_whole_human(files, differences))
    return DataReport("webshop-full", FULL, str(folder), reports, differences)


def _whole_products(
    files: ShopFiles, differences: list[Difference], watch: Callable[[Iterator[Product]], Iterator[Product]]
) -> PartReport:
    report, digest, published = LoadReport(), hashlib.blake2b(digest_size=16), PUBLISHED_FULL["products"]
    for product in watch(read_products(stream_records(files.items), {}, report)):
        digest.update(product_hash(product).encode())
    digest.update(_entries_digest(files.attributes))
    count, skipped = report.products, sum(report.skipped.values())
    for reason, number in report.skipped.items():
        differences.append(
            Difference("products", "unusable", report.examples[reason], f"{reason}; {number:,} such records")
        )
    complete = count == published
    summary = (
        "as many as published, so it may be the released catalogue"
        if complete
        else f"not the released catalogue, which has {published:,}; WebShop's `setup.sh -d all` fetches it"
    )
    verdict = f"{summary}; no content is published to compare with; digest {digest.hexdigest()}: equal digests are equal catalogues"
    counts = dict.fromkeys(FULL_KINDS, 0) | {"found": count, "unusable": skipped}
    return PartReport("products", published, 0, counts, complete, complete, verdict)


def _entries_digest(path: Path) -> bytes:
    """A digest of the attribute file's entries that does not depend on their order, which has no effect."""
    total = 0
    for asin, entry in stream_items(path):
        total += int(content_id("", [asin, entry])[1:], 16)
    return (total % 2**128).to_bytes(16, "big")


def _whole_human(files: ShopFiles, differences: list[Difference]) -> PartReport:
    listed, report, published = load_texts(), LoadReport(), PUBLISHED_FULL["human"]
    items = stream_items(files.human) if files.human else ()
    present = Counter[str]()
    for entries in _all_entries(items, report):
        present.update(instruction_text_hash(entry["instruction"]) for entry in entries)
    same, missing, extra = (present & listed).total(), (listed - present).total(), (present - listed).total()
    for kind, hashes in (("missing", listed - present), ("extra", present - listed)):
        differences += [Difference("human", kind, digest, "hash of its text") for digest in sorted(hashes)[:1_000]]
    unusable = sum(report.skipped.values())
    counts = dict.fromkeys(FULL_KINDS, 0) | {"same": same, "missing": missing, "unusable": unusable, "extra": extra}
    total = listed.total()
    complete = not missing and extra == published - total
    if complete:
        verdict = f"can stand for the released human instructions, by text; {extra} more, as many as the release has, are not in the manifest"
    elif not missing:
        verdict = f"all listed texts are there, with {extra} more, not {published - total} as in the release: goal numbers differ from the original's"
    else:
        verdict = f"cannot stand for the released human instructions: {missing:,} of {total:,} listed texts are missing, so goal numbers differ"
    return PartReport("human", published, total, counts, not missing, complete, verdict)


def _all_entries(items: Any, report: LoadReport) -> Iterator[list[Any]]:
    """The usable instructions, and those without attributes, from which no goal is made but whose texts are published too."""
    for asin, entries in items:
        rows = entries if isinstance(entries, list) else [entries]
        usable = [
            {**row, "instruction_attributes": row.get("instruction_attributes") or ["-"]}
            if isinstance(row, dict)
            else row
            for row in rows
        ]
        yield list(usable_human_entries([(asin, usable)], report).get(asin, ()))
