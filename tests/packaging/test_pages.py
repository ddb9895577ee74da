"""Paths and modules that the pages name exist, and their code fits on the screen."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from helpers.shared_data import ROOT

from builder.markdown import staged_text
from builder.repository import WRITTEN

FOLDERS = "agents|assets|constraints|envs|tests|train|wrappers|src|\\.ci"
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md")),
    *sorted(ROOT.glob("envs/**/*.md")),
    *sorted(ROOT.glob("train/**/*.md")),
    *sorted(ROOT.glob("tests/**/*.md")),
    *sorted(ROOT.glob("wrappers/**/*.md")),
    *sorted(ROOT.glob("assets/**/*.md")),
]


def text_of(page: Path) -> str:
    """A page without its table of other codebases; of the changelog what is not released, as older parts name older files."""
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":
        return text.partition("## Unreleased")[2].partition("\n## ")[0]
    before, _, after = text.partition("## What is taken from other codebases")
    return before + after.partition("\n## ")[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_and_modules_that_a_page_names_exist(page: Path) -> None:
    text = text_of(page)
    paths = re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`(?! at commit)", text)
    paths = [path for path in paths if not re.search("NAME|TRAINER|TIER|PATH", path)]
    assert not [path for path in paths if not (ROOT / path).exists() and not (page.parent / path).exists()]
    imported = r"^(?:>>> )? *from creditflow\.([a-z_0-9.]+) import|python -m creditflow\.([a-z_0-9.]*[a-z_0-9])"
    modules = [ROOT / "".join(names).replace(".", "/") for names in re.findall(imported, text, re.M)]
    assert not [name for name in modules if not name.with_suffix(".py").is_file() and not name.is_dir()]


@pytest.mark.parametrize("page", sorted(ROOT.glob("envs/*/README.md")), ids=lambda page: page.parent.name)
def test_modules_on_the_page_of_an_environment_are_in_its_folder_or_in_one_that_the_line_names(page: Path) -> None:
    missing = []
    for line in page.read_text(encoding="utf-8").splitlines():
        folders = [page.parent, ROOT, *(page.parent / name for name in re.findall(r"`([\w/]+/)`", line))]
        names = re.findall(r"`([\w/]+\.py)`", line)
        missing += [name for name in names if not any((folder / name).is_file() for folder in folders)]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_of_a_page_is_no_wider_than_the_column_of_the_site(page: Path) -> None:
    """At 1,280 px a line has room for 120 characters; shell commands and plain text wrap."""
    blocks = re.findall(r"^```(?:python|pycon|yaml)[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert not [line for block in blocks for line in block.splitlines() if len(line) > 120]


SOURCES = [path for folder in ("agents", "envs", "train", "wrappers") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_no_command_installs_the_package_from_an_index() -> None:
    """None has it: a checkout or a wheel is installed."""
    wrong = re.compile(r"pip install (?:-\S+ )*['\"]?creditflow\b(?!-)")
    texts = {path: text_of(path) if path in PAGES else path.read_text(encoding="utf-8") for path in [*PAGES, *SOURCES]}
    assert not [path.relative_to(ROOT).as_posix() for path, text in texts.items() if wrong.search(text)]


def links_of(page: Path) -> list[str]:
    """Targets of the relative links and pictures of a page, without anchors; code has none."""
    text = re.sub(r"^( *)```.*?^\1```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)(?: \"[^\"]*\")?\)|(?:src|srcset|href)=\"([^\"]+)\"", text)
    paths = ("".join(pair).partition("#")[0] for pair in targets)
    return [path for path in paths if path and not re.match(r"\w+:", path)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_links_to_is_in_the_checkout(page: Path) -> None:
    assert not [link for link in links_of(page) if not (page.parent / link).exists()]


def test_pages_are_all_the_markdown_that_is_tracked() -> None:
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("no checkout of git")
    assert {ROOT / path for path in tracked.stdout.split()} == set(PAGES)


@pytest.mark.parametrize("page", sorted((ROOT / WRITTEN).rglob("*.md")), ids=lambda page: page.stem)
def test_the_site_has_a_page_for_what_a_page_links_to(page: Path) -> None:
    """Otherwise staging raises."""
    staged, pictures = staged_text(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix())
    assert "](../" not in staged
    assert all((ROOT / picture).is_file() for picture in pictures)


def paragraphs_of(page: Path) -> list[str]:
    """The running prose of a page, without code, tables and headings; an item of a list is a paragraph, without its label."""
    text = re.sub(r"\A---\n.*?^---\n|^( *)(`{3,}).*?^\1\2 *$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"^ *\|.*$", "", text, flags=re.M)
    parts = re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. |#)", text)
    prose = [
        re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "CODE", part)).strip() for part in parts if not part.startswith("    ")
    ]
    return [re.sub(r"^(?:[-*] )?\*\*[^*]+\.\*\*", "", part) for part in prose if part and not part.startswith("#")]


SHOWN = [
    page for page in PAGES if not page.is_relative_to(ROOT / "tests") and page.name not in ("CHANGELOG.md", "AGENTS.md")
]
SENTENCE = re.compile(r"[.!?][)\"*”]*(?= [A-Z*\"(\[]|$)")


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_prose_is_in_short_paragraphs_without_intervals_or_history(page: Path) -> None:
    for paragraph in paragraphs_of(page):
        assert len(SENTENCE.findall(re.sub(r"\b(?:e\.g|i\.e|vs)\.", "", paragraph))) <= 5, paragraph
        assert not re.search(r"\d ?%? \[[^\]]+, [^\]]+\]|± ?\d", paragraph), (
            f"an interval belongs in a table: {paragraph}"
        )
        assert not re.search(r"\b(no longer|formerly|previously|anymore|earlier versions?)\b", paragraph), paragraph
