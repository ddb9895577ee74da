"""WebShop's whole catalogue, of which only numbers and the texts of human instructions are published."""

from __future__ import annotations

import gzip
import hashlib
import json
import tracemalloc
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hostile_files import worse_file
from helpers.worlds.webshop_small import HUMAN, record, small_stock

from creditflow.envs.data_report import PartReport
from creditflow.envs.errors import CreditflowError, DataError
from creditflow.envs.webshop.catalogue import check as full_module
from creditflow.envs.webshop.catalogue.check import check_full, instruction_text_hash, load_texts
from creditflow.train.cli import main

NAMES = ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json")
PRODUCTS = [small_stock().catalogue.product(f"P{number:02d}") for number in range(8)]
EMPTY = {
    "instruction": "Buy 'it'.",
    "instruction_attributes": [],
    "instruction_options": [],
}  # makes no goal, but has a text


def write(folder: Path, items: list[Any], entries: dict[str, Any], human: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in zip(NAMES, (items, entries, human), strict=True):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def contents() -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    entries = {one.asin: {"attributes": list(one.attributes)} for one in PRODUCTS}
    return [record(one) for one in PRODUCTS], entries, {"P03": [*HUMAN, EMPTY]}


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*(str(one["instruction"]) for one in HUMAN), "buy it"]
    listed = Counter(map(instruction_text_hash, texts))
    monkeypatch.setattr(full_module, "load_texts", lambda: listed)
    monkeypatch.setattr(full_module, "PUBLISHED_FULL", {"products": len(PRODUCTS), "human": len(texts)})


def parts(folder: Path) -> tuple[PartReport, PartReport]:
    products, human = check_full(folder).parts
    return products, human


def digest(part: PartReport) -> str:
    return part.verdict.partition("digest ")[2].partition(":")[0]


def test_as_many_products_and_all_texts_may_be_the_release(tmp_path: Path) -> None:
    products, human = parts(write(tmp_path, *contents()))
    assert (products.counts["found"], products.published_complete, len(digest(products))) == (8, True, 32)
    assert "may be the released catalogue; no content is published" in products.verdict
    assert (human.counts["same"], human.published_complete) == (len(HUMAN) + 1, True)


def test_the_digest_is_of_content_and_order_of_products(tmp_path: Path) -> None:
    def digest_of(name: str, items: list[Any], entries: dict[str, Any]) -> str:
        return digest(parts(write(tmp_path / name, items, entries, {}))[0])

    items, entries, _ = contents()
    same = [digest_of("first", items, entries), digest_of("second", items, dict(reversed(entries.items())))]
    other = [
        digest_of("order", items[::-1], entries),
        digest_of("price", [{**items[0], "pricing": "$1.5"}, *items[1:]], entries),
        digest_of("attributes", items, {**entries, "P00": {"attributes": ["x"]}}),
        digest_of("instruction", items, {**entries, "P00": {**entries["P00"], "instruction": "x"}}),
    ]
    assert same[0] == same[1]
    assert len({same[0], *other}) == 1 + len(other)


def test_missing_and_further_instructions_and_other_numbers_are_told(tmp_path: Path) -> None:
    items, entries, _ = contents()
    products, human = parts(write(tmp_path, items[:-1], entries, {"P03": [EMPTY, {**EMPTY, "instruction": "other"}]}))
    assert "not the released catalogue, which has 8" in products.verdict
    assert not products.listed_complete
    assert (human.counts["same"], human.counts["missing"], human.counts["extra"]) == (1, len(HUMAN), 1)
    assert "cannot stand for" in human.verdict
    more = parts(write(tmp_path / "more", items, entries, {"P03": [*HUMAN, EMPTY, EMPTY]}))[1]
    assert (more.listed_complete, more.published_complete, more.counts["extra"]) == (True, False, 1)
    assert "goal numbers differ" in more.verdict


def test_malformed_records_are_counted_and_damaged_files_are_refused(tmp_path: Path) -> None:
    items, entries, human = contents()
    items[2] = {**items[2], "pricing": "dear"}
    report = check_full(write(tmp_path, items, entries, {"P03": [7, {"instruction": 1}, *human["P03"]]}))
    assert [part.counts["unusable"] for part in report.parts] == [1, 2]
    for name in NAMES:
        good = (write(tmp_path, *contents()) / name).read_bytes()
        for number in range(40):
            (tmp_path / name).write_bytes(worse_file(good, np.random.default_rng([19, number])))
            try:
                assert check_full(tmp_path).to_text().replace("\n", "").isprintable()
            except CreditflowError as error:
                assert str(tmp_path) in str(error)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Products are read one by one, also from a compressed file: three times as many need no more memory."""
    peaks = []
    for count in (400, 1_200):
        long = {**record(PRODUCTS[0]), "full_description": "long " * 5_000}
        folder = write(tmp_path / str(count), [{**long, "asin": f"Q{i:04d}"} for i in range(count)], {}, {})
        (folder / f"{NAMES[0]}.gz").write_bytes(gzip.compress((folder / NAMES[0]).read_bytes()))
        (folder / NAMES[0]).unlink()
        tracemalloc.start()
        assert check_full(folder, ["products"]).parts[0].counts["found"] == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 12_000_000, "the second file has 30 million characters"


def test_a_truncated_archive_and_a_wrong_folder_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, *contents())
    data = gzip.compress((tmp_path / NAMES[0]).read_bytes())
    (tmp_path / NAMES[0]).unlink()
    (tmp_path / f"{NAMES[0]}.gz").write_bytes(data[:-30])
    with pytest.raises(DataError, match="truncated"):
        check_full(tmp_path)
    assert main(["data", "check", "webshop-full", str(tmp_path / "none")]) == 3
    assert "is not a folder" in capsys.readouterr().err
    assert main(["data", "check", "webshop-full", str(tmp_path), "--only", "humans"]) == 2


def test_the_embedded_texts_do_not_change() -> None:
    data = (files("creditflow.assets") / "manifests" / "webshop" / "full-human-v1.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "2b58e31fd2577c82c953a9528299f239f6d4eef5c5a8c5980b42fd673a94dbe7"
    assert load_texts().total() == 12_084
