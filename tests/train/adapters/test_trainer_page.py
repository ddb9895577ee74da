"""The page "Bring your own trainer": every block is marked with its tier and parses, its tier runs it, named files exist."""

from __future__ import annotations

import ast
import itertools
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.shared_data import ROOT
from helpers.trainer_page import PAGE, blocks, run_blocks

RELEASES = {  # what the page calls a package that a tier pins
    "plain PyTorch": "torch", "TRL": "trl", "verl": "verl", "verifiers": "verifiers", "SkyRL-gym": "skyrl-gym", "SkyRL": "skyrl", "GEM": "gem-llm",
    "tinker-cookbook": "tinker-cookbook", "tinker": "tinker", "Stable-Baselines3": "stable_baselines3", "OpenEnv": "openenv",
    "TorchRL": "torchrl", "Trinity-RFT": "trinity-rft", "AReaL": "areal",
}  # fmt: skip
CHECKOUTS = {  # and a trainer that a variable names
    "rLLM": "RLLM", "prime-rl": "PRIME_RL", "slime": "SLIME", "ROLL": "ROLL", "Agent Lightning": "AGENT_LIGHTNING", "NeMo Gym": "NEMO_GYM",
}  # fmt: skip
NO_END = ("plain PyTorch", "Search-R1-style", "OpenRLHF")  # rows of no adapter


def trainers() -> list[str]:
    """The first cells of the table."""
    rows = PAGE.read_text(encoding="utf-8").partition("| trainer, tested version |")[2].splitlines()[2:]
    return [
        row.split(" | ")[0].removeprefix("| ") for row in itertools.takewhile(lambda row: row.startswith("|"), rows)
    ]


def test_every_block_is_marked_with_its_tier_and_parses() -> None:
    marks = [mark for mark, _ in blocks()]
    assert set(marks) == {"run=core", "run=train", "run=sb3", "run=rllm", "not-run"}
    for _, code in blocks():
        ast.parse(code)
    text = PAGE.read_text(encoding="utf-8")
    assert len(marks) == text.count("```python")


def test_the_table_has_the_releases_and_commits_that_the_tiers_run() -> None:
    table = ", ".join(trainers())
    pins = "\n".join(
        path.read_text("utf-8")
        for path in (ROOT / "constraints").glob("*.txt")
        if path.stem not in ("oldest", "newest", "minimal")
    )
    for name, package in RELEASES.items():
        [version] = re.findall(rf"(?:^|, ){re.escape(name)} ([\w.]+)", table)
        assert re.search(rf"(^|\s){package}=={re.escape(version)}(\s|$)", pins, re.I), f"{name} {version}"
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    for name, variable in CHECKOUTS.items():
        [commit] = re.findall(rf"(?:^|, ){re.escape(name)} [\w.]+ \(([0-9a-f]{{7}})\)", table)
        assert re.search(rf"{variable}_SOURCE[^\n]*{commit}", run), f"{name} {commit}"


def test_every_adapter_has_a_row_on_the_page_of_dense_rewards() -> None:
    text = (ROOT / "assets" / "site" / "pages" / "how_to" / "dense_rewards.md").read_text(encoding="utf-8")
    rows = "".join(line for line in text.splitlines() if line.startswith("| "))
    names = [re.split(r"-gym| [(\d]", name)[0] for name in trainers() if not name.startswith(NO_END)]
    assert len(names) > 15
    assert [name for name in names if name not in rows] == []


def test_files_that_the_page_names_exist() -> None:
    for name in re.findall(r"`(tests/[\w./]+)`", PAGE.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("name", ["LOOPS", "TRL", "VERIFIERS", "VERL"])
def test_blocks_of_the_page_of_a_trainer_are_marked_and_files_that_it_names_exist(name: str) -> None:
    page = PAGE.parent / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    assert len(blocks(page)) == text.count("```python")
    assert {mark for mark, _ in blocks(page)} <= {"run=gem", "run=trl", "run=verifiers", "not-run"}
    for _, code in blocks(page):
        ast.parse(code)
    for path in re.findall(r"`((?:tests|train)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path


def test_blocks_that_need_no_extra_run(tmp_path: Path) -> None:
    assert run_blocks("core", tmp_path) == 2


@pytest.mark.sb3
@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="Stable-Baselines3 is not installed")
def test_the_block_of_stable_baselines3_runs(tmp_path: Path) -> None:
    assert run_blocks("sb3", tmp_path) == 2


def test_blocks_of_the_page_of_openenv_parse_and_files_that_it_names_exist() -> None:
    text = (PAGE.parent / "OPENENV.md").read_text(encoding="utf-8")
    found = re.findall(r"^( *)```python\n(.*?)^ *```$", text, re.M | re.S)
    assert len(found) == text.count("```python") == 3
    for indent, code in found:
        ast.parse(re.sub(f"^{indent}", "", code, flags=re.M))
    for name in re.findall(r"(?:tests|train)/[\w./]+\.py", text):
        assert (ROOT / name).exists(), name
