"""The README and the site's verdict have the figures that the package ships."""

from __future__ import annotations

import re

import pytest
from helpers.shared_data import ROOT

from creditflow.train.cards.figures import shipped

ROWS = {
    "gigpo": "gigpo",
    "graphgpo` (.8)": "graphgpo",
    "rewardflow": "rewardflow",
    "hgpo": "hgpo",
    "gagpo": "gagpo",
    "grouptd": "grouptd",
    "grouptd_base": "grouptd_base",
    "control: `stateless": "stateless",
}
COLUMNS = {"tables": ("step", 1.0, 3), "shared": ("learning", 100.0, 4), "language models": ("learning", 100.0, 5)}
NUMBER = re.compile(r"[-+]?\d*\.\d+")


def numbers(cell: str) -> list[float]:
    return [float(x) for x in NUMBER.findall(cell.replace("−", "-"))]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_readme_has_the_shipped_figures(row: str) -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    [line] = [one for one in lines if re.match(rf"\|\s*(\*\*)?`?{re.escape(row)}`?(\*\*)?\s*\|", one)]
    cells = line.split("|")
    for regime, (endpoint, factor, place) in COLUMNS.items():
        found = shipped().measured[ROWS[row]][regime][endpoint]
        expected = [factor * x for x in (found.mean, found.low, found.high)]
        assert numbers(cells[place]) == pytest.approx(expected, abs=0.051 if factor > 1.0 else 0.00051), regime


@pytest.mark.parametrize("page", ["README.md", "assets/site/pages/benchmark/verdict.md"])
@pytest.mark.parametrize("method", ["grouptd", "oracle_adv"])
@pytest.mark.parametrize("regime", ["shared", "language models"])
def test_the_verdict_has_the_shipped_figures(page: str, method: str, regime: str) -> None:
    found = shipped().measured[method][regime]["learning"]
    mean, low, high = (100.0 * x for x in (found.mean, found.low, found.high))
    assert f"+{mean:.1f} [{low:.1f}, {high:.1f}]" in (ROOT / page).read_text("utf-8")
