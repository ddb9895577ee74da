"""The README's Python sessions run as printed; the page stays short."""

from __future__ import annotations

import doctest
import re

from helpers.shared_data import ROOT


def test_python_sessions_of_the_readme_give_what_they_show():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sessions = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.S))
    parsed = doctest.DocTestParser().get_doctest(sessions, {}, "README", "README.md", 0)
    assert len(parsed.examples) > 10
    assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0


def test_the_readme_is_shorter_than_150_lines():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150
