"""The released thousand products, as far as they are open, are as the manifest says."""

from __future__ import annotations

import json

import pytest
from helpers.shared_data import shared_file

from creditflow.envs.webshop.catalogue.manifest import build_manifest, load_manifest
from creditflow.envs.webshop.catalogue.stock import find_files
from creditflow.train.cli import main

FOLDER = shared_file("data/webshop")


def test_the_command_finds_the_released_files_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "webshop", str(FOLDER), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    same = {part["part"]: part["counts"]["same"] for part in report["parts"]}
    assert same == {"products": 1_000, "synthetic": 379, "human": 10}
    assert report["differences"] == []
    # 36 synthetic and 3 human instructions of the release are not in the open files
    assert [part["published_complete"] for part in report["parts"]] == [True, False, False]


def test_the_manifest_is_reproducible() -> None:
    assert build_manifest(find_files(FOLDER)) == load_manifest("small-v1")
