"""One run of the suite at smoke size, shared by the tests of a session."""

from __future__ import annotations

from typing import Any

import pytest

from creditflow.train.bench.document import read_results
from creditflow.train.cli import main

COMMAND = ["bench", "--preset", "smoke", "--seed", "5", "--envs", "shared", "--schemes", "grpo,rloo,graphgpo,grouptd"]


@pytest.fixture(scope="session")
def shared_out(tmp_path_factory):
    """Folder of the run; read-only."""
    pytest.importorskip("jinja2", reason="the page needs the 'bench' extra")
    folder = tmp_path_factory.mktemp("shared")
    assert main([*COMMAND, "--workers", "1", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def document(shared_out) -> dict[str, Any]:
    """The results of the run, a fresh copy for each test."""
    return read_results(shared_out / "results.json")
