"""The page "Bring your own trainer": every block is marked with its tier and parses, its tier runs it, named files exist."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.shared_data import ROOT
from helpers.trainer_page import PAGE, blocks, run_blocks
from helpers.trainers.table import ROWS, page


def test_every_block_is_marked_with_its_tier_and_parses() -> None:
    marks = [mark for mark, _ in blocks()]
    assert set(marks) == {"run=core", "run=train", "run=trl", "run=sb3", "run=rllm", "run=verifiers", "not-run"}
    for _, code in blocks():
        ast.parse(code)
    text = PAGE.read_text(encoding="utf-8")
    assert len(marks) == text.count("```python")


def test_the_table_is_that_of_the_tiers_pins_and_of_the_tests_that_run() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run: python tests/helpers/trainers/table.py"


def test_every_adapter_has_a_row_on_the_page_of_dense_rewards() -> None:
    text = (ROOT / "assets" / "site" / "pages" / "how_to" / "dense_rewards.md").read_text(encoding="utf-8")
    rows = "".join(line for line in text.splitlines() if line.startswith("| "))
    names = [re.split(r"-gym| [{(\d]", row.trainer)[0] for row in ROWS if row.end]
    assert [name for name in names if name not in rows] == []


def test_files_that_the_page_names_exist() -> None:
    for name in re.findall(r"`(tests/[\w./]+)`", PAGE.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


def test_blocks_of_the_page_of_loops_are_marked_and_files_that_it_names_exist() -> None:
    page = PAGE.parent / "LOOPS.md"
    text = page.read_text(encoding="utf-8")
    assert len(blocks(page)) == text.count("```python")
    assert {mark for mark, _ in blocks(page)} <= {"run=gem", "not-run"}
    for _, code in blocks(page):
        ast.parse(code)
    for name in re.findall(r"`((?:tests|train)/[\w./]+)`", text):
        assert (ROOT / name).exists(), name


def test_blocks_of_the_page_of_verl_agent_parse_and_files_that_it_names_exist() -> None:
    text = (PAGE.parent / "VERL_AGENT.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python not-run\n(.*?)^```$", text, re.M | re.S)
    assert len(found) == text.count("```python") == 2
    for code in found:
        ast.parse(code)
    for name in re.findall(r"`((?:tests|train)/[\w./]+\.py)`", text):
        assert (ROOT / name).exists(), name


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
