"""Speeds that a page states are those of one run of ``make bench``, in ``README.md`` beside this file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.shared_data import ROOT

PAGE = Path(__file__).with_name("README.md").read_text("utf-8")
SCALING = (ROOT / "train" / "adapters" / "SCALING.md").read_text("utf-8")


def measured(what: str) -> float:
    """The speed in the row of this name."""
    [number] = re.findall(rf"^\| \w+ \| {re.escape(what)} \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    return float(number.replace(",", ""))


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"Sokoban ([\d.]+) k steps/s", "Sokoban steps, text, unwrapped"),
        (r"ALFWorld ([\d.]+) k,", "ALFWorld steps with keys, info and admissible actions"),
        (r"WebShop ([\d.]+) k,", "WebShop steps, random clicks in the embedded shop"),
        (r"WikiSearch ([\d.]+) k\.", "WikiSearch steps, random actions"),
    ],
)
def test_rates_of_environments_are_those_of_the_run(pattern: str, what: str) -> None:
    [stated] = re.findall(pattern, SCALING)
    digits = len(stated.partition(".")[2])
    assert float(stated) == round(measured(what) / 1000, digits)


def test_the_rate_of_the_search_server_is_that_of_the_run() -> None:
    [stated] = re.findall(r"answers ([\d,]+) queries/s", SCALING)
    assert float(stated.replace(",", "")) == measured("queries to serve search, 8 clients, 16 in a request")


@pytest.mark.parametrize("name", ["alfworld", "sokoban", "webshop", "wikisearch"])
def test_pages_of_environments_leave_figures_to_the_run(name: str) -> None:
    page = (ROOT / "envs" / name / "README.md").read_text("utf-8")
    assert "`tests/benchmarks/README.md` has one run's figures" in page
    assert not re.search(r"\dk? (?:text |grid )?steps per (?:CPU )?second(?! *\n\(`pytest)", page)
