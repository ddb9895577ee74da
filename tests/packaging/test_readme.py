"""The README's Python sessions and commands run as printed; the page stays short."""

from __future__ import annotations

import doctest
import re
import shlex

import pytest
from helpers.shared_data import ROOT

from creditflow.train.cli import main

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_sessions_of_the_readme_give_what_they_show():
    sessions = "\n".join(re.findall(r"```pycon\n(.*?)```", TEXT, re.S))
    parsed = doctest.DocTestParser().get_doctest(sessions, {}, "README", "README.md", 0)
    assert len(parsed.examples) > 8
    assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0


def test_commands_of_the_readme_print_what_they_show(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Seconds differ; a command without lines below it may print anything."""
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```console\n(.*?)```", TEXT, re.S)
    ran = 0
    for command, shown in re.findall(r"^\$ creditflow (.*)\n((?:[^$].*\n)*)", block, re.M):
        assert main(shlex.split(command, comments=True)) == 0
        printed = "".join(capsys.readouterr())  # summaries of commands that write a file go to the standard error
        assert re.sub(r"[\d.]+ s;", "s;", shown) in re.sub(r"[\d.]+ s;", "s;", printed)
        ran += 1
    assert ran == block.count("$ creditflow")


def test_the_readme_is_shorter_than_150_lines():
    assert len(TEXT.splitlines()) < 150
