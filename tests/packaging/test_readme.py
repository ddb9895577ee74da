"""The README's session gives what it shows; its numbers are those of a study; its links lead somewhere; the page stays short."""

from __future__ import annotations

import doctest
import re

import pytest
from helpers.shared_data import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\]\(([^)\s]+)\)", TEXT)


def test_python_sessions_of_the_readme_give_what_they_show():
    sessions = "\n".join(re.findall(r"```pycon\n(.*?)```", TEXT, re.S))
    parsed = doctest.DocTestParser().get_doctest(sessions, {}, "README", "README.md", 0)
    assert len(parsed.examples) == 5
    assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0


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
    assert len(TEXT.splitlines()) <= 80
    assert len(TEXT.split()) <= 550
    assert len(LINKS) >= 20
    assert not re.findall(r"[-+−]?\d*\.?\d+ \[", TEXT)
