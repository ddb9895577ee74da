"""One benchmark run at smoke size, shared by the tests of a session."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.smoke_bench import smoke_bench

from creditflow.train.bench.document import read_results


@pytest.fixture(scope="session")
def out(tmp_path_factory):
    """Folder of a run of the suite with exact values; read-only."""
    folder = tmp_path_factory.mktemp("bench")
    words = ["--seed", "5", "--out", str(folder)]
    assert smoke_bench("grpo,graphgpo,grouptd", *words) == 0
    return folder


@pytest.fixture
def document(out) -> dict[str, Any]:
    """The results of the run, a fresh copy for each test."""
    return read_results(out / "results.json")
