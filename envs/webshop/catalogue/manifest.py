"""Manifests of WebShop's released files: a hash of every product and instruction, none of their texts.

What is hashed is the content as it is loaded (``products.py``, ``goals.py``): formatting of the JSON, keys that the shop never shows and
the picture's URL do not matter. Goals are not listed: their price limits and order come from one random stream over
the whole catalogue, so they are the same when products, instructions, their order and the seeds are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.manifests import embedded_manifest
from creditflow.envs.tasks import content_id
from creditflow.envs.webshop.catalogue.products import LoadReport, Product, read_products, wanted_attributes
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records
from creditflow.envs.webshop.catalogue.stock import ShopFiles
from creditflow.envs.webshop.goals.goals import usable_human_entries

__all__ = [
    "Manifest",
    "build_manifest",
    "human_hash",
    "instruction_hash",
    "load_manifest",
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
