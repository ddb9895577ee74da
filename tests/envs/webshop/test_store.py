"""Stores on disk equal stocks in memory, and damage is detected."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.shared_data import shared_file
from helpers.worlds.webshop_small import write_files

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.checksummed_folder import Blob, write_blob
from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.catalogue.importing import import_webshop
from creditflow.envs.webshop.catalogue.stock import ShopFiles, find_files, load_stock
from creditflow.envs.webshop.catalogue.store import verify_store
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.goals.stored import open_store


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixty products of the embedded shop in WebShop's files."""
    path = tmp_path_factory.mktemp("files")
    write_files(path, [embedded_stock().catalogue.store.product(row) for row in range(60)])
    return path


@pytest.fixture
def store(folder, tmp_path):
    import_webshop(folder, tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("goals", ["synthetic", "human"])
@pytest.mark.parametrize("goal_seed", [233, 42])
def test_a_store_equals_the_stock_loaded_from_the_files(folder, store, goals, goal_seed):
    memory, disk = (
        load_stock(folder, goals=goals, goal_seed=goal_seed),
        open_store(store, goals=goals, goal_seed=goal_seed),
    )
    assert disk.catalogue.digest == memory.catalogue.digest
    assert list(disk.goals) == list(memory.goals)
    assert [disk.number_of(goal) for goal in memory.goals] == [memory.number_of(goal) for goal in memory.goals]
    assert all(memory.goals[memory.number_of(goal)].same_task_as(goal) for goal in memory.goals)
    assert disk.number_of(replace(memory.goals[0], instruction="something else")) == -1
    for row in range(len(memory.catalogue)):
        assert disk.catalogue.store.product(row) == memory.catalogue.store.product(row)
        assert disk.catalogue.store.price(row) == memory.catalogue.store.price(row)
    for query in (
        "tea",
        "soft blue",
        "<c> home",
        "<q> desk lamps",
        "<r>",
        "",
        *(g.instruction.lower() for g in disk.goals),
    ):
        assert disk.catalogue.search(query) == memory.catalogue.search(query)


def test_the_store_of_the_originals_thousand_products_equals_the_loaded_stock(tmp_path):
    folder = shared_file("data/webshop")
    report = import_webshop(folder, tmp_path / "store", strict=True)
    memory, disk = load_stock(folder), open_store(tmp_path / "store")
    assert (report.products, report.skipped) == (len(memory.catalogue), {})
    assert disk.catalogue.digest == memory.catalogue.digest
    assert disk.goals[::50] == list(memory.goals)[::50]


def test_episodes_over_a_store_equal_those_over_the_files(folder, store):
    pages = []
    for path in (folder, store):
        env = WebShopEnv(data=str(path), preset="upstream")
        observation, info = env.reset(options={"task": {"goal": 5}})
        pages.append((observation, info["task_id"], env.step(info["admissible_actions"][0])[0]))
    assert pages[0] == pages[1]


def test_the_report_names_skipped_records_and_missing_files(folder, tmp_path):
    files = find_files(folder)
    report = import_webshop(ShopFiles(files.items, files.attributes), tmp_path / "store")
    notes = "\n".join(report.notes)
    assert report.products == 60
    assert "'name' is int" in notes
    assert "2 products have no entry" in notes
    assert "no human goals" in notes
    with pytest.raises(DataError, match="human"):
        open_store(tmp_path / "store", goals="human")


def test_a_strict_import_of_a_malformed_record_is_an_error_and_leaves_no_store(folder, tmp_path):
    with pytest.raises(DataError, match="record 60"):
        import_webshop(folder, tmp_path / "store", strict=True)
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_download_is_an_error_and_leaves_no_store(folder, tmp_path):
    cut = tmp_path / "in"
    cut.mkdir()
    for path in folder.iterdir():
        data = path.read_bytes()
        (cut / path.name).write_bytes(data[: len(data) * 2 // 3] if "shuffle" in path.name else data)
    with pytest.raises(DataError, match="truncated"):
        import_webshop(cut, tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_an_existing_folder_is_not_overwritten(store, folder):
    with pytest.raises(ConfigError, match="exists"):
        import_webshop(folder, store)


def test_a_store_with_prices_of_another_seed_is_an_error(store):
    with pytest.raises(ConfigError, match="seed 42"):
        open_store(store, seed=7)


def files_of(store):
    return sorted(path.name for path in store.iterdir())


def test_a_changed_byte_in_any_file_is_detected(store):
    for name in files_of(store):
        path = store / name
        data = path.read_bytes()
        if not data:
            continue
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(DataError):
            verify_store(store)
        path.write_bytes(data)
    verify_store(store)


def test_missing_and_truncated_files_are_detected_when_opened(store):
    for name in files_of(store):
        path = store / name
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(DataError):
            open_store(store)
        path.write_bytes(data[:-1])
        if data:
            with pytest.raises(DataError):
                open_store(store)
        path.write_bytes(data)


def test_a_header_cannot_name_files_elsewhere(store):
    header = json.loads((store / "header.json").read_text())
    header["files"]["../evil"] = header["files"].pop("prices.f8")
    (store / "header.json").write_text(json.dumps(header))
    with pytest.raises(DataError, match="changed or damaged"):
        open_store(store)


def test_blobs_may_contain_empty_strings(tmp_path):
    write_blob(tmp_path, "b", [b"", b"xy", b""])
    blob = Blob(tmp_path / "b.bin", np.fromfile(tmp_path / "b.offsets", "<i8"))
    assert [blob[i] for i in range(len(blob))] == [b"", b"xy", b""]
