"""One benchmark run at smoke size, shared by the tests of a session."""

from __future__ import annotations

from typing import Any

import pytest

from creditflow.train.bench.results import read_results
from creditflow.train.cli import main


@pytest.fixture(scope="session")
def out(tmp_path_factory):
    """Folder of a run on both suites with tables; read-only."""
    pytest.importorskip("matplotlib", reason="plots need the 'bench' extra")
    folder = tmp_path_factory.mktemp("bench")
    command = ["bench", "--preset", "smoke", "--workers", "1", "--seed", "5", "--envs", "grids,sokoban"]
    assert main([*command, "--schemes", "grpo,graphgpo,grouptd", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def document(out) -> dict[str, Any]:
    """The results of the run, a fresh copy for each test."""
    return read_results(out / "results.json")
