"""Exports that are killed or interrupted at many moments leave nothing under the output's name, and can be run again at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.processes.killing import Killer, require_interrupted, require_killed, running_killer

from creditflow.train.cli import main

pytestmark = pytest.mark.data
WRITERS = {
    "parquet": ["data", "export", "LOG", "--format", "parquet", "--out", "{}/files"],
    "hf": ["data", "export", "LOG", "--format", "hf", "--out", "{}/hub"],
    "import": ["data", "import", "parquet", "FILES", "--out", "{}/log.jsonl"],
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("inputs")
    log, files = folder / "log.jsonl", folder / "files"
    played = ["--panel", "standard-v1:train", "--limit", "4", "--group-size", "2"]
    assert main(["rollout", "--agent", "noisy:0.3", *played, "--out", str(log)]) == 0
    assert main(["data", "export", str(log), "--format", "parquet", "--out", str(files)]) == 0
    return {"LOG": str(log), "FILES": str(files)}


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    with running_killer() as killer:
        yield killer


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("require", [require_killed, require_interrupted])
def test_a_stopped_export_leaves_nothing_torn_and_can_be_run_again(
    name: str, require: Callable[..., None], tmp_path: Path, inputs: dict[str, str], killer: Killer
) -> None:
    words = [inputs.get(argument, argument) for argument in WRITERS[name]]
    require(killer, tmp_path, words, ["--force"], at_once=True)
