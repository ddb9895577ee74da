"""The picture of a group on an environment's page is what the page's two commands show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from helpers.shared_data import ROOT

from creditflow.train.cli import main
from creditflow.wrappers import StateGraph
from creditflow.wrappers.records.jsonl import read_groups


@pytest.mark.parametrize("name", ["alfworld", "webshop", "wikisearch"])
def test_the_commands_write_the_log_and_the_page_of_the_picture(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "envs" / name / "README.md").read_text(encoding="utf-8")
    commands = re.findall(rf"^creditflow ((?:rollout|view) .*{name}\.(?:jsonl|html))$", page, re.M)
    monkeypatch.chdir(tmp_path)
    assert [main(shlex.split(command)) for command in commands] == [0, 0]
    [group] = read_groups(f"{name}.jsonl")
    shown = re.search(rf"the graph of (\d+) states.*{name}_view\.png", page)
    assert shown is not None
    assert (len(group), StateGraph.from_group(group).size) == (8, int(shown[1]))
    assert group.group_id in Path(f"{name}.html").read_text(encoding="utf-8")
