"""Manifests of released data, made from the files that their authors publish."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json_rows
from creditflow.envs.tasks import PanelRow
from creditflow.envs.webshop.catalogue import check as shop_check
from creditflow.envs.webshop.catalogue.check import Manifest, human_hash, instruction_hash, product_hash
from creditflow.envs.webshop.catalogue.products import LoadReport, read_products
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records
from creditflow.envs.webshop.catalogue.stock import ShopFiles
from creditflow.envs.webshop.goals.goals import usable_human_entries
from creditflow.envs.wikisearch.questions import question_task
from creditflow.envs.wikisearch.slices import DATA_SETS, file_of, question_hash, released_question


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
        out.write(f'{{"format_version":{shop_check.FORMAT},"products":[\n{lines}\n]}}\n')


def slice_rows(folder: Path) -> Iterator[PanelRow]:
    """Yield the rows of the panel from a folder of question files: by data set, in the order of its file.

    Raises:
        DataError: a missing or malformed file.
    """
    for name in DATA_SETS:
        seen = set[str]()
        for _, row in read_json_rows(file_of(folder, name)):
            question = released_question(name, row)
            digest = question_hash(question.text)
            if digest not in seen:  # the same question with other answers is another row of some files
                seen.add(digest)
                split = f"{name}-{row.get('split', 'dev' if name == 'nq_open' else 'test')}"
                strata = {"data_set": name, "kind": question.kind}
                yield PanelRow(question_task(question).task_id, split, {"question": digest}, strata)
