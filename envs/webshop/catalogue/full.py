"""``creditflow data check webshop-full``: WebShop's whole catalogue, as far as it is known without its files.

Published are the number of products, 1,181,436, and the texts of the 12,087 human instructions, of which the manifest lists 12,084 by
hash, as the authors' baselines read them (lower case, without quotation marks). No hash of a product is published, so the check counts
the products and prints a digest of all of them in their order, with their attributes and synthetic instructions: two copies with equal digests are the same catalogue, with the same
prices and goals for the same seeds.

Files: ``items_shuffle.json`` (5.3 GB), ``items_ins_v2.json``, ``items_human_ins.json`` (5 MB), from ``setup.sh -d all``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final

from creditflow.envs.data_report import DataReport, Difference, PartReport
from creditflow.envs.manifests import embedded_manifest
from creditflow.envs.tasks import content_id
from creditflow.envs.webshop.catalogue.manifest import product_hash
from creditflow.envs.webshop.catalogue.products import LoadReport, Product, read_products
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records
from creditflow.envs.webshop.catalogue.stock import ShopFiles, find_files
from creditflow.envs.webshop.goals.goals import usable_human_entries

__all__ = ["FULL", "PUBLISHED_FULL", "check_full", "instruction_text_hash", "load_texts"]

FULL: Final = "full-human-v1"
FORMAT: Final = 1
PUBLISHED_FULL: Final = {"products": 1_181_436, "human": 12_087}
HASH_LENGTH: Final = 10  # hex digits; by chance two of 12,087 texts are equal in one of 15,000 manifests
KINDS: Final = ("same", "found", "missing", "unusable", "extra")


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
    """Check the whole catalogue in one pass over each file; memory holds product ids and the human instructions' hashes, no texts.

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
        reports.append(_products(files, differences, watch))
    if "human" in parts:
        reports.append(_human(files, differences))
    return DataReport("webshop-full", FULL, str(folder), reports, differences)


def _products(
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
    counts = dict.fromkeys(KINDS, 0) | {"found": count, "unusable": skipped}
    return PartReport("products", published, 0, counts, complete, complete, verdict)


def _entries_digest(path: Path) -> bytes:
    """A digest of the attribute file's entries that does not depend on their order, which has no effect."""
    total = 0
    for asin, entry in stream_items(path):
        total += int(content_id("", [asin, entry])[1:], 16)
    return (total % 2**128).to_bytes(16, "big")


def _human(files: ShopFiles, differences: list[Difference]) -> PartReport:
    listed, report, published = load_texts(), LoadReport(), PUBLISHED_FULL["human"]
    items = stream_items(files.human) if files.human else ()
    present = Counter[str]()
    for entries in _all_entries(items, report):
        present.update(instruction_text_hash(entry["instruction"]) for entry in entries)
    same, missing, extra = (present & listed).total(), (listed - present).total(), (present - listed).total()
    for kind, hashes in (("missing", listed - present), ("extra", present - listed)):
        differences += [Difference("human", kind, digest, "hash of its text") for digest in sorted(hashes)[:1_000]]
    unusable = sum(report.skipped.values())
    counts = dict.fromkeys(KINDS, 0) | {"same": same, "missing": missing, "unusable": unusable, "extra": extra}
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
