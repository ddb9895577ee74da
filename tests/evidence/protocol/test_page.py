"""The page of the crossed design reports what its stored results hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
    assert len(design.settings) == len(crossed_cells(PRESETS["protocol"].shared))


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
            if len(cells) != 10 or name not in pairs:
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
def test_no_factor_reverses_the_lead_of_credit_from_graphs(run):
    """The claim of the README. Only at the largest rate are leads level."""
    design = design_of(read_results(HERE / f"{run}.json.gz")["suites"][0])
    assert design is not None
    pairs = {(p.better, p.worse): p for p in pairs_of(design, design.methods)}
    level = {
        scheme: {
            name
            for levels in pairs[scheme, "grpo"].levels.values()
            for name, estimate in levels.items()
            if estimate.low <= 0.0
        }
        for scheme in ("grouptd", "graphgpo", "rewardflow", "gigpo")
    }
    at_most = {"Adam 0.3"}
    second = at_most if run == "second" else set()
    assert level == {"grouptd": set(), "graphgpo": second, "rewardflow": second, "gigpo": at_most}
    assert not pairs["grouptd", "grpo"].factors
    for scheme in level:
        assert all(
            estimate.mean > 0.0 for levels in pairs[scheme, "grpo"].levels.values() for estimate in levels.values()
        )


def test_outcomes_of_the_predictions_about_the_fourth_rate():
    for run in RUNS:
        design = design_of(read_results(HERE / f"{run}.json.gz")["suites"][0])
        assert design is not None
        change = {
            name: float(
                np.mean(design.values("area", name, optimiser="Adam 0.3"))
                - np.mean(design.values("area", name, optimiser="Adam 0.1"))
            )
            for name in design.methods
        }
        assert [name for name, by in change.items() if by >= 0.0] == [
            {"first": "oracle_adv", "second": "hgpo"}[run]
        ]  # D11
        assert max(change.values()) < 0.001
        pairs = {(p.better, p.worse): p for p in pairs_of(design, design.methods)}
        schemes = [name for name in design.methods if name not in ("grpo", "oracle_adv") and (name, "grpo") in pairs]
        assert all(pairs[name, "grpo"].levels["optimiser"]["Adam 0.3"].mean < 0.03 for name in schemes)  # D12


def test_the_runs_agree_as_the_page_says():
    pairs = []
    for run in RUNS:
        design = design_of(read_results(HERE / f"{run}.json.gz")["suites"][0])
        assert design is not None
        schemes = [name for name in design.methods if "oracle" not in name]
        pairs.append({f"{p.better} − {p.worse}": p for p in pairs_of(design, schemes)})
    page = (HERE / "README.md").read_text("utf-8")
    names = [name for name in pairs[0] if name in pairs[1] and f"| {name} |" in page]
    assert len(names) == 10
    assert round(max(abs(100 * (pairs[0][n].difference.mean - pairs[1][n].difference.mean)) for n in names), 1) == 0.6
    assert sum(pairs[0][n].factors != pairs[1][n].factors for n in names) == 4


def test_leads_at_the_best_rate_are_quoted_from_the_reports():
    rows = []
    for run in RUNS:
        (suite,) = read_results(HERE / f"{run}.json.gz")["suites"]
        [table] = [table for table in design_tables(suite) if table.title == "Every method at its own rate of Adam"]
        rows.append({name: cells[0].replace("+", "").replace("-", "−") for name, *cells in table.rows[1:]})
        chosen = {name: cells[2:] for name, *cells in table.rows[1:] if name not in ("oracle_adv", "hgpo")}
        assert all(counts == ["0", "0", "6", "0"] for counts in chosen.values())
    page = " ".join((HERE / "README.md").read_text("utf-8").split())
    verdict = " ".join((ROOT / "assets/site/pages/benchmark/verdict.md").read_text("utf-8").split())
    for name in ("graphgpo", "grouptd", "oracle_adv"):
        assert f"{rows[0][name]} and {rows[1][name]}" in page, name
    for name in ("graphgpo", "grouptd", "gigpo", "oracle_adv"):
        assert rows[0][name] in verdict, name
