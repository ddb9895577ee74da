"""``creditflow data check webshop``: WebShop's files compared with the manifest of the released thousand products.

A manifest has a hash of every product and instruction, none of their texts. What is hashed is the
content as it is loaded (``products.py``, ``goals.py``): formatting of the JSON, keys that the shop never shows and the
picture's URL do not matter. Goals are not listed. They are made from products and instructions in catalogue order, by one
random stream for prices and price limits, so they are the same when products, instructions, their order and the seeds are; a
product that is missing, changed or elsewhere changes the goals after it, and a further product changes what a search finds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError
from creditflow.envs.manifests import DataReport, Item, embedded_manifest, problem_text, verify
from creditflow.envs.tasks import content_id
from creditflow.envs.webshop.catalogue.products import LoadReport, Product, read_products, wanted_attributes
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records
from creditflow.envs.webshop.catalogue.stock import ShopFiles, find_files
from creditflow.envs.webshop.goals.goals import usable_human_entries

__all__ = [
    "MANIFEST",
    "PARTS",
    "Manifest",
    "check_shop",
    "human_hash",
    "instruction_hash",
    "load_manifest",
    "product_hash",
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
PARTS: Final = ("products", "order", "synthetic", "human")


def check_shop(
    folder: str | Path,
    manifest: Manifest,
    parts: Collection[str] = PARTS,
    watch: Callable[[Iterator[Product]], Iterator[Product]] = iter,
) -> DataReport:
    """Compare WebShop's files with a manifest; one pass over any number of products.

    Args:
        folder: holds the files; see ``find_files``.
        manifest: what they should be.
        parts: names of ``PARTS`` to report.
        watch: receives the products as they are read and yields them; shows progress.

    Raises:
        DataError: a file is missing, truncated or not JSON.
    """
    listed = {("products", asin): digest for asin, digest in manifest.products.items()}
    listed["order", "products"] = _hash(list(manifest.products))
    listed |= {("synthetic", asin): digest for asin, digest in manifest.synthetic.items()}
    for asin, digests in manifest.human.items():
        listed |= {("human", f"{asin}/{number}"): digest for number, digest in enumerate(digests)}
    return verify(
        "webshop",
        MANIFEST,
        str(folder),
        listed,
        _items(find_files(folder), manifest, watch),
        parts=[part for part in PARTS if part in parts],
        source="WebShop's `setup.sh -d small` fetches the released files; goals, prices or search results differ",
    )


def _items(
    files: ShopFiles, manifest: Manifest, watch: Callable[[Iterator[Product]], Iterator[Product]]
) -> Iterator[Item]:
    entries = {asin: entry for asin, entry in stream_items(files.attributes) if asin in manifest.products}
    report, order = LoadReport(), list[str]()
    for product in watch(read_products(stream_records(files.items), entries, report)):
        order += [product.asin] if product.asin in manifest.products else []
        yield Item("products", product.asin, product_hash(product))
    yield Item("order", "products", _hash(order))
    yield from _skipped("products", report)
    for asin in manifest.products:
        try:
            digest = instruction_hash(entries.get(asin, {}))
        except DataError as error:
            yield Item("synthetic", asin, problem=problem_text(error))
            continue
        if digest:
            yield Item("synthetic", asin, digest)
    report = LoadReport()
    items = stream_items(files.human) if files.human else ()
    human = usable_human_entries(((asin, item) for asin, item in items if asin in manifest.products), report)
    for asin, instructions in human.items():
        for number, entry in enumerate(instructions):
            yield Item("human", f"{asin}/{number}", human_hash(entry))
    yield from _skipped("human", report)


def _skipped(part: str, report: LoadReport) -> Iterator[Item]:
    for reason, count in report.skipped.items():
        for _ in range(count):
            yield Item(part, report.examples[reason], problem=reason)
