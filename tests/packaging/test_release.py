"""A release: one version everywhere, a citation that tools read, and an image that runs what was tested."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
import yaml
from helpers.shared_data import ROOT

import creditflow
from builder.markdown import staged_text

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_is_complete_and_has_the_version_and_licence_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    # what schema 1.2.0 requires; cffconvert --validate checks the rest by hand before a release
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert all(author["name"] for author in citation["authors"])
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", str(citation["date-released"]))


def test_the_changelog_begins_with_what_is_not_released_and_then_this_version_in_two_minutes_of_reading() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^## (.*)$", text, re.M)[:2]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert first == "Unreleased"
    assert second == f"{PROJECT['version']}, {citation['date-released']}"
    section = text.partition(f"## {second}")[2].partition("\n## ")[0]
    assert len(section.split()) < 1000


def test_the_address_of_the_project_stands_in_one_place_and_the_readme_and_the_site_are_made_from_it() -> None:
    address = PROJECT["urls"]["Repository"]
    assert re.findall(r"git clone (\S+)", (ROOT / "README.md").read_text(encoding="utf-8")) == [address]
    for page in ("assets/site/pages/start/install.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert re.findall(r"git clone (\S+)", text) == ["REPOSITORY"]
        assert f"git clone {address} creditflow" in staged_text(text, page)[0]
    tracked = subprocess.run(["git", "grep", "-lF", address], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode == 0:  # a checkout of git
        assert set(tracked.stdout.split()) == {"README.md", "pyproject.toml"}


def test_the_version_of_the_package_is_that_of_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"9.8.7+{name}")
    monkeypatch.delitem(vars(creditflow), "__version__", raising=False)
    assert creditflow.__version__ == "9.8.7+creditflow"
    monkeypatch.delitem(vars(creditflow), "__version__")


def test_no_other_place_states_the_version() -> None:
    places = [*ROOT.glob("src/creditflow/*.py"), ROOT / "Dockerfile", ROOT / "Makefile"]
    number = re.compile(rf"(?<![\d.]){re.escape(PROJECT['version'])}(?![\d.])")
    assert not [place.name for place in places if number.search(place.read_text(encoding="utf-8"))]


def test_the_image_is_pinned_not_root_and_installs_what_a_tier_tests() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    images = re.findall(r"^FROM (\S+)", text, re.M)
    assert images and all(re.fullmatch(r"python:3\.\d+-slim-\w+", image) for image in images)
    assert re.search(r"^USER [1-9]\d*$", text, re.M)
    assert "MPLCONFIGDIR=/tmp/" in text  # for a user without a home, as with docker run --user
    assert "STOPSIGNAL SIGINT" in text  # process 1 ignores SIGTERM, and docker stop would kill it after ten seconds
    for constraints in re.findall(r"-c (\S+)", text):
        assert (ROOT / constraints).is_file()
    for extra in re.findall(r"'\.\[([\w,-]+)\]'", text):
        assert set(extra.split(",")) <= set(PROJECT["optional-dependencies"])


def test_the_page_of_extras_lists_every_extra_with_its_use() -> None:
    page = (ROOT / "train" / "commands" / "EXTRAS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| .+ \| (?:[\d,]+|\?) \|$", page, re.M)
    assert sorted(rows) == sorted(PROJECT["optional-dependencies"])
