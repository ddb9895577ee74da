"""The open question files are as the manifest of slices says."""

from __future__ import annotations

import json

import pytest
from helpers.shared_data import shared_file

from creditflow.envs.wikisearch.data_check import DATA_SETS, list_questions, load_slices
from creditflow.train.cli import main

FILES = {name: shared_file(f"data/search/{name}.jsonl.gz") for name in DATA_SETS}


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_command_finds_the_slice_complete(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", name, str(FILES[name]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_manifest_is_reproducible(name: str) -> None:
    assert tuple(list_questions(FILES[name])) == load_slices()[name]
