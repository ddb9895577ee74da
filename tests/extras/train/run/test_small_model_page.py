"""The site's page on a small model: its command runs, and what it makes is opened as an agent."""

from __future__ import annotations

import shlex
from pathlib import Path

from helpers.shared_data import ROOT

from creditflow.agents.language_model.pretrained import read_agent_file
from creditflow.assets.site.markdown import blocks_of
from creditflow.train.cli import main

PAGE = ROOT / "assets" / "site" / "pages" / "how_to" / "small_model.md"


def test_the_command_of_the_page_makes_a_model(tmp_path: Path) -> None:
    [code] = [code for _, mark, code in blocks_of(PAGE.read_text(encoding="utf-8")) if mark == "run=train"]
    program, *arguments = shlex.split(code.replace("\\\n", " "))
    assert program == "creditflow"
    words = [word.replace("train/configs", str(ROOT / "train/configs")) for word in arguments]
    assert main([word.replace("runs/small", str(tmp_path / "small")) for word in words]) == 0
    prompting, _ = read_agent_file(tmp_path / "small" / "model" / "creditflow_agent.json")
    assert prompting.history == "append"
