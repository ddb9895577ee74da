"""The evidence of the confirmation agrees with the present code: same predictions, same outcomes, checks passed, and the default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evidence.confirmation.stated import check_stated
from helpers.shared_data import ROOT

from creditflow import credit
from creditflow.train.bench.presets import PRESETS
from creditflow.train.bench.report.sanity import require_sane
from creditflow.train.bench.report.tables import suite_tables
from creditflow.train.bench.report.text import document_text
from creditflow.train.bench.report.tidy import study_results
from creditflow.train.bench.results import read_results
from creditflow.train.bench.shared.cells import cells_of
from creditflow.train.bench.studies import Study
from creditflow.wrappers.credit.states.grouptd import VARIANTS

FOLDER = Path(__file__).parent
MAX_LOSS = 0.02  # of the rule for the default, in predictions.json


@pytest.fixture(scope="module")
def run():
    return read_results(FOLDER / "confirmation.json.gz")


@pytest.fixture(scope="module")
def studies(run):
    shared = next(suite for suite in run["suites"] if suite["name"] == "shared")
    return [Study.from_json(row) for row in shared["studies"]]


def test_every_cell_was_run(run, studies):
    assert len(studies) == len(cells_of(PRESETS["confirmation"].shared))
    assert all(suite.get("impossible", {}) == {} for suite in run["suites"])
    require_sane(run)
    assert not run["provenance"]["commit"].endswith("dirty")


def test_outcomes_of_the_predictions_follow_from_the_results(run):
    stated = json.loads((FOLDER / "predictions.json").read_text(encoding="utf-8"))["predictions"]
    assert run["predictions"]["checked"] == check_stated(stated, run["suites"])
    assert "not run" not in {p["outcome"] for p in run["predictions"]["checked"]}


def test_the_committed_text_is_the_report_of_the_committed_results(run):
    assert (FOLDER / "confirmation.txt").read_text(encoding="utf-8") == document_text(run) + "\n"


def test_every_table_of_every_suite_answers_a_question_and_draws_differences_with_intervals(run):
    for suite in run["suites"]:
        for table in suite_tables(suite):
            assert table.question.endswith("?"), table.title
            assert len(table.bars) in (0, len(table.rows) - 1)
            assert bool(table.unit) == bool(table.bars)
            assert all(bar is None or bar.low <= bar.mean <= bar.high for bar in table.bars)


def test_the_default_is_what_the_rule_says(studies):
    ahead = [
        study_results(studies).mean(endpoint, "grouptd_relative", "grouptd_base") for endpoint in ("area", "final")
    ]
    by_study = [study_results([study]).mean("area", "grouptd_relative", "grouptd_base") for study in studies]
    lost = any(one.mean <= -MAX_LOSS and one.interval.high < 0.0 for one in by_study)
    chosen = "grouptd_relative" if all(one.interval.low > 0.0 for one in ahead) and not lost else "grouptd_base"
    assert credit.make("grouptd") == credit.make("grouptd", **VARIANTS[chosen])


def test_the_page_says_what_keys_that_never_repeat_cost_at_the_end(studies):
    page = (FOLDER / "README.md").read_text(encoding="utf-8").replace("−", "-")
    [fresh] = [study for study in studies if "fresh" in study.title]
    lost = study_results([fresh]).measure("final")
    said = []
    for name in ("grouptd_relative", "grouptd_relative_pooled"):
        found = lost(name, "grpo")
        assert found.interval.high < 0.0
        said.append("{:.1f} [{:.1f}, {:.1f}]".format(*(100 * x for x in (found.mean, *found.interval))))
    assert "({}, {}, both p < .05)".format(*said).replace("-0.", "-.") in page
    verdict = (ROOT / "assets/site/pages/benchmark/verdict.md").read_text(encoding="utf-8").replace("−", "-")
    assert f"ends lower (`grouptd` {said[0]})" in verdict
    worst = [-100 * lost(name, "grpo").mean for name in ("gigpo_mean", "rewardflow_raw")]
    assert "`gigpo_mean` and raw potentials by {:.1f} and {:.1f}.".format(*worst) in page
