"""The README's Python blocks, sessions and commands run as printed; its links lead somewhere; the page stays short."""

from __future__ import annotations

import doctest
import re
import shlex

import pytest
from helpers.shared_data import ROOT

from creditflow.train.cli import main

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
OWN_LOG = ROOT / "assets" / "site" / "pages" / "start" / "own_log.md"
LINKS = re.findall(r"\]\(([^)\s]+)\)", TEXT)


def test_the_dense_reward_stands_near_the_top_and_is_not_zero():
    """The block asserts so itself."""
    [block] = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    assert "DenseReward" in block and "assert" in block
    assert TEXT[: TEXT.index(block)].count("\n") < 30
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - the page itself


def test_python_sessions_of_the_readme_give_what_they_show():
    sessions = "\n".join(re.findall(r"```pycon\n(.*?)```", TEXT, re.S))
    parsed = doctest.DocTestParser().get_doctest(sessions, {}, "README", "README.md", 0)
    assert len(parsed.examples) > 8
    assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0


def test_commands_of_the_readme_print_what_they_show(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Seconds differ; a command without lines below it may print anything. The log is the one of the page on own logs."""
    monkeypatch.chdir(tmp_path)
    [script] = re.findall(r"```python file=write_messages.py\n(.*?)```", OWN_LOG.read_text(encoding="utf-8"), re.S)
    exec(compile(script, OWN_LOG.name, "exec"), {})  # noqa: S102 - a page of the repository
    [block] = re.findall(r"```console\n(.*?)```", TEXT, re.S)
    ran = 0
    for command, shown in re.findall(r"^\$ creditflow (.*)\n((?:[^$].*\n)*)", block, re.M):
        assert main(shlex.split(command, comments=True)) == 0
        printed = "".join(capsys.readouterr())  # summaries of commands that write a file go to the standard error
        assert re.sub(r"[\d.]+ s;", "s;", shown) in re.sub(r"[\d.]+ s;", "s;", printed)
        ran += 1
    assert ran == block.count("$ creditflow")


def heading_anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_a_link_of_the_readme_leads_to_a_file_and_a_heading(link: str):
    path, _, anchor = link.partition("#")
    assert (ROOT / path).exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(encoding="utf-8"), re.M)
        assert anchor in map(heading_anchor, headings)


def test_the_readme_is_short_has_links_and_leaves_intervals_to_the_pages():
    assert len(TEXT.splitlines()) <= 120
    assert len(LINKS) >= 25
    assert not re.findall(r"[-+−]?\d*\.?\d+ \[", TEXT)
