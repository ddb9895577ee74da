"""The page of the crossed design reports what its stored results hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from creditflow.train.bench.report.design import design_of, pairs_of
from creditflow.train.bench.report.sanity import require_sane
from creditflow.train.bench.report.tables import points
from creditflow.train.bench.report.text import document_text
from creditflow.train.bench.results import read_results

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def document():
    return read_results(HERE / "pits.json.gz")


def test_the_stored_results_pass_all_checks_and_give_the_stored_tables(document):
    require_sane(document)
    assert (HERE / "pits.txt").read_text("utf-8") == document_text(document) + "\n"


def test_every_row_of_the_page_is_computed_from_the_results(document):
    (suite,) = document["suites"]
    design = design_of(suite)
    assert design is not None
    pairs = {f"{p.better} − {p.worse}": p for p in pairs_of(design, [n for n in design.methods if "oracle" not in n])}
    lines = [line for line in (HERE / "README.md").read_text("utf-8").splitlines() if " | " in line]
    rows = {cells[0]: cells[1:] for line in lines if (cells := line.strip("| ").split(" | "))[0] in pairs}
    assert len(rows) == 10
    for name, cells in rows.items():
        pair = pairs[name]
        expected = [
            pair.difference.times(100).text(1, "+"),
            *map(points, pair.levels["optimiser"].values()),
            f"{pair.holds}, {pair.turns}",
            ", ".join(pair.factors) or "no factor",
        ]
        assert cells == expected, name
