"""The page of the crossed design reports what its stored results hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.shared_data import ROOT

from creditflow.train.bench.presets import PRESETS
from creditflow.train.bench.report.design import design_of, pairs_of
from creditflow.train.bench.report.sanity import require_sane
from creditflow.train.bench.report.tables import design_tables, points
from creditflow.train.bench.report.text import document_text
from creditflow.train.bench.results import read_results
from creditflow.train.bench.shared.cells import crossed_cells

HERE = Path(__file__).parent


RUNS = ("first", "second")


@pytest.mark.parametrize("run", RUNS)
def test_the_stored_results_are_whole_pass_all_checks_and_give_the_stored_tables(run):
    document = read_results(HERE / f"{run}.json.gz")
    require_sane(document)
    assert not document["provenance"]["commit"].endswith("dirty")
    assert (HERE / f"{run}.txt").read_text("utf-8") == document_text(document) + "\n"
    design = design_of(document["suites"][0])
    assert design is not None
    assert len(design.settings) <= len(crossed_cells(PRESETS["protocol"].shared))


def test_every_row_of_the_page_is_computed_from_the_results():
    rows = dict.fromkeys(RUNS, 0)
    tables = (HERE / "README.md").read_text("utf-8").split("Seed 72, with other tasks:")
    for run, text in zip(RUNS, tables, strict=True):
        design = design_of(read_results(HERE / f"{run}.json.gz")["suites"][0])
        assert design is not None
        pairs = {
            f"{p.better} − {p.worse}": p for p in pairs_of(design, [n for n in design.methods if "oracle" not in n])
        }
        for line in text.splitlines():
            name, *cells = line.strip("| ").split(" | ")
            if len(cells) != 9 or name not in pairs:
                continue
            pair = pairs[name]
            levels = [estimate for factor in ("tasks", "optimiser") for estimate in pair.levels[factor].values()]
            rows[run] += 1
            assert cells == [
                pair.difference.times(100).text(1, "+"),
                *map(points, levels),
                f"{pair.holds}, {pair.turns}",
                ", ".join(pair.factors) or "no factor",
            ], name
    assert rows == {"first": 10, "second": 10}


@pytest.mark.parametrize("run", RUNS)
def test_no_scheme_that_leads_grpo_depends_on_a_factor(run):
    """The claim of the README: graphs and gigpo lead under every choice."""
    design = design_of(read_results(HERE / f"{run}.json.gz")["suites"][0])
    assert design is not None
    pairs = {(p.better, p.worse): p for p in pairs_of(design, design.methods)}
    for scheme in ("grouptd", "graphgpo", "rewardflow", "gigpo"):
        pair = pairs[scheme, "grpo"]
        assert not pair.factors
        assert not pair.turns
        assert all(level.low > 0.0 for levels in pair.levels.values() for level in levels.values())


def test_leads_at_the_best_rate_are_quoted_from_the_reports():
    rows = []
    for run in RUNS:
        (suite,) = read_results(HERE / f"{run}.json.gz")["suites"]
        [table] = [table for table in design_tables(suite) if table.title == "Every method at its own rate of Adam"]
        rows.append({name: cells[0].replace("+", "").replace("-", "−") for name, *cells in table.rows[1:]})
        assert all(
            cells[2:] == ["0", "0", "6"] for _, *cells in table.rows[1:]
        )  # the largest of the three rates for all
    page = " ".join((HERE / "README.md").read_text("utf-8").split())
    verdict = " ".join((ROOT / "assets/site/pages/benchmark/verdict.md").read_text("utf-8").split())
    for name in ("graphgpo", "grouptd", "oracle_adv"):
        assert f"{rows[0][name]} and {rows[1][name]}" in page, name
    for name in ("graphgpo", "grouptd", "gigpo", "oracle_adv"):
        assert rows[0][name] in verdict, name
