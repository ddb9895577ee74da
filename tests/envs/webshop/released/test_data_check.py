"""WebShop's files compared with a manifest: products, instructions, their order, and files that are damaged."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hostile_files import worse_file
from helpers.panels.manifests import build_manifest, write_manifest
from helpers.worlds.webshop_small import FILES, HUMAN, Contents, file_contents, record, small_stock, write_shop
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import CreditflowError, DataError
from creditflow.envs.manifests import KINDS, DataReport
from creditflow.envs.webshop.catalogue.check import Manifest, check_shop, load_manifest
from creditflow.envs.webshop.catalogue.stock import find_files, load_stock
from creditflow.train.cli import main

COUNT = 8
PRODUCTS = [small_stock().catalogue.product(f"P{number:02d}") for number in range(COUNT)]
INSTRUCTED = [one.asin for number, one in enumerate(PRODUCTS) if number % 3]


def contents() -> Contents:
    return file_contents(PRODUCTS, INSTRUCTED, [PRODUCTS[3].asin, "elsewhere"])


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return build_manifest(find_files(write_shop(tmp_path_factory.mktemp("released"), contents())))


def found(report: DataReport) -> dict[tuple[str, str], str]:
    return {(one.part, one.name): one.kind for one in report.differences}


# -- what does not matter ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "written",
    [lambda content: json.dumps(content, indent=2), lambda content: json.dumps(content, ensure_ascii=False) + "\r\n"],
    ids=["indented", "line ends"],
)
def test_formatting_pictures_and_unknown_keys_do_not_matter(
    written: Callable[[Any], str], manifest: Manifest, tmp_path: Path
) -> None:
    items, entries, human = contents()
    for item in items:
        item |= {"images": ["https://example.org/1.jpg"], "brand": "x", "query": f" {item['query'].upper()} "}
    report = check_shop(write_shop(tmp_path, (items, entries, human), written), manifest)
    assert not report.differences
    assert report.complete


def test_equal_files_have_equal_goals(manifest: Manifest, tmp_path: Path) -> None:
    """What the manifest compares is enough: goals, prices and the catalogue's digest follow from it and the seeds."""
    items, entries, human = contents()
    first = load_stock(write_shop(tmp_path / "first", (items, entries, human)))
    again = (items, dict(reversed(entries.items())), human)
    assert not check_shop(write_shop(tmp_path / "second", again), manifest).differences
    second = load_stock(tmp_path / "second")
    assert (list(first.goals), first.catalogue.digest) == (list(second.goals), second.catalogue.digest)


# -- every kind of difference ------------------------------------------------------------------------------------------
CHANGES = ("same", "title", "price", "options", "attributes", "absent", "broken")


@settings(max_examples=60)
@given(drawn=st.lists(st.sampled_from(CHANGES), min_size=COUNT, max_size=COUNT))
def test_every_product_is_reported_once(
    drawn: list[str], manifest: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    items, entries, human = contents()
    for item, change in zip(items, drawn, strict=True):
        if change == "attributes":
            entries[item["asin"]]["attributes"] = ["another"]
        item |= {"title": {"name": "other"}, "price": {"pricing": "$99.5"}, "broken": {"pricing": "dear"}}.get(
            change, {}
        )
        if change == "options":
            item["customization_options"] = {"colour": [{"value": "mauve"}]}
    kept = [item for item, change in zip(items, drawn, strict=True) if change != "absent"]
    report = check_shop(write_shop(tmp_path_factory.mktemp("shop"), (kept, entries, human)), manifest, ["products"])
    kinds = {"same": "same", "absent": "missing", "broken": "missing"}
    expected = [kinds.get(change, "changed") for change in drawn] + ["unusable"] * drawn.count("broken")
    counts = report.parts[0].counts
    assert {kind: counts[kind] for kind in KINDS} == {kind: expected.count(kind) for kind in KINDS}
    assert report.complete == (set(drawn) == {"same"})


def test_order_matters_as_prices_and_goals_depend_on_it(manifest: Manifest, tmp_path: Path) -> None:
    items, entries, human = contents()
    items[2], items[5] = items[5], items[2]
    report = check_shop(write_shop(tmp_path, (items, entries, human)), manifest)
    assert found(report) == {("order", "products"): "changed"}
    assert not report.complete


def test_instructions_are_told_apart_from_products(manifest: Manifest, tmp_path: Path) -> None:
    items, entries, human = contents()
    entries["P01"]["instruction"] = "find something else"
    del entries["P02"]["instruction"]
    entries["P00"] |= {"instruction": "find P00", "instruction_attributes": ["light weight"]}
    entries["P04"]["instruction_attributes"] = 7
    human["P03"] = [{**HUMAN[0], "instruction": "other"}, HUMAN[0]]
    report = check_shop(write_shop(tmp_path, (items, entries, human)), manifest)
    assert found(report) == {
        ("products", "P04"): "missing",
        ("products", "record 4 ('P04')"): "unusable",
        ("order", "products"): "changed",
        ("synthetic", "P01"): "changed",
        ("synthetic", "P02"): "missing",
        ("synthetic", "P00"): "extra",
        ("synthetic", "P04"): "unusable",
        ("human", "P03/0"): "changed",
        ("human", "P03/1"): "extra",
    }


def test_absent_and_changed_human_instructions_are_told_apart(manifest: Manifest, tmp_path: Path) -> None:
    items, entries, _ = contents()
    report = check_shop(write_shop(tmp_path / "none", (items, entries, {})), manifest)
    assert found(report) == {("human", "P03/0"): "missing"}
    changed = {"P03": [{**HUMAN[0], "instruction": "other"}]}
    assert found(check_shop(write_shop(tmp_path / "changed", (items, entries, changed)), manifest)) == {
        ("human", "P03/0"): "changed"
    }
    (tmp_path / "none" / FILES[2]).unlink()
    assert found(check_shop(tmp_path / "none", manifest)) == {("human", "P03/0"): "missing"}


def test_a_larger_catalogue_is_another_one_and_not_all_of_its_products_are_named(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("creditflow.envs.manifests.NAMED_EXTRAS", 3)
    items, entries, human = contents()
    items += [record(replace(PRODUCTS[0], asin=f"Q{number}")) for number in range(20)]
    report = check_shop(write_shop(tmp_path, (items, entries, human)), manifest)
    part = report.parts[0]
    assert (part.counts["extra"], len(report.differences)) == (20, 3)
    assert "extra: and 15 more" in report.to_text()


# -- hostile input, the embedded manifest, the command -----------------------------------------------------------------
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_reported_or_refused(name: str, manifest: Manifest, tmp_path: Path) -> None:
    write_shop(tmp_path, contents())
    good = (tmp_path / name).read_bytes()
    for number in range(80):
        (tmp_path / name).write_bytes(worse_file(good, np.random.default_rng([11, number])))
        try:
            text = check_shop(tmp_path, manifest).to_text()
        except CreditflowError as error:
            assert str(tmp_path) in str(error)
        else:
            assert text.isascii() or text.replace("\n", "").isprintable()


def test_a_compressed_bomb_and_a_cut_file_are_errors(manifest: Manifest, tmp_path: Path) -> None:
    write_shop(tmp_path, contents())
    (tmp_path / FILES[0]).write_bytes((tmp_path / FILES[0]).read_bytes()[:-40])
    with pytest.raises(DataError, match="truncated"):
        check_shop(tmp_path, manifest)
    (tmp_path / FILES[0]).unlink()
    (tmp_path / f"{FILES[0]}.gz").write_bytes(gzip.compress(b"[" + b" " * 200_000_000, 9))
    with pytest.raises(DataError):
        check_shop(tmp_path, manifest)


def test_the_manifest_survives_its_file(manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_manifest(tmp_path / "manifests" / "webshop" / "made-v1.json", manifest)
    monkeypatch.setattr("creditflow.envs.manifests.files", lambda _: tmp_path)
    assert load_manifest("made-v1") == manifest


def test_the_embedded_manifest_has_the_thousand() -> None:
    data = (files("creditflow.assets") / "manifests" / "webshop" / "small-v1.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "0d6fbe6a4921c101e10d110fcf7342ebd319bcf41690dbdf111d35939ea45736"
    embedded = load_manifest("small-v1")
    assert (len(embedded.products), len(embedded.synthetic), len(embedded.human)) == (1_000, 379, 10)


def test_the_command_says_what_it_can_check_and_where_files_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "check", "webshop", str(tmp_path)]) == 3
    assert "setup.sh" in capsys.readouterr().err
    write_shop(tmp_path, contents())
    assert main(["data", "check", "webshop", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["parts"][0]["counts"]["missing"] == 1_000
    assert main(["data", "check", "webshop", str(tmp_path), "--only", "product"]) == 2
    assert "did you mean 'products'" in capsys.readouterr().err
