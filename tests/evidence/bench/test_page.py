"""The committed evidence agrees with the present code: same predictions, same outcomes, sanity checks passed."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from evidence.bench.predictions import RULES, check_predictions, load_predictions
from evidence.language_models.pooled import page_table, pooled_difference, pooled_tables
from helpers.shared_data import ROOT

from creditflow.train.bench.report.sanity import require_sane
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.text import document_text
from creditflow.train.bench.report.tidy import correlations
from creditflow.train.bench.results import read_results

FOLDER = Path(__file__).parent
RUNS = sorted(FOLDER.glob("*.json.gz"))
LANGUAGE_MODELS = FOLDER.with_name("language_models")
LANGUAGE_MODEL_RUNS = [LANGUAGE_MODELS / "lm.json.gz", LANGUAGE_MODELS / "second.json.gz"]


@pytest.fixture(params=RUNS, ids=lambda path: path.name.removesuffix(".json.gz"))
def run(request):
    return read_results(request.param)


def test_the_full_run_is_committed():
    assert "full.json.gz" in {path.name for path in RUNS}


def test_the_full_run_checked_the_predictions_as_they_were_written():
    full = read_results(FOLDER / "full.json.gz")
    statements = [(p["id"], p["statement"]) for p in full["predictions"]["checked"]]
    assert statements == [(p["id"], p["statement"]) for p in load_predictions()["predictions"]]
    assert None not in {p["hit"] for p in full["predictions"]["checked"]}


def predicted_cells(run):
    return [cell for suite in run["suites"] if suite["spec"] in ("grids", "sokoban") for cell in suite["cells"]]


def test_every_prediction_has_its_rule_and_is_open_where_its_cells_were_not_run():
    assert {p["id"] for p in load_predictions()["predictions"]} == set(RULES)
    cells = predicted_cells(read_results(FOLDER / "full.json.gz"))
    by_id = {p["id"]: p for p in check_predictions([c for c in cells if c["kind"] == "open" and c["size"] == 8])}
    assert list(by_id) == list(RULES)
    assert by_id["P20"]["hit"] is None  # no Sokoban cell was run
    assert by_id["P05"]["hit"] is None  # no G 4


def test_a_prediction_can_fail():
    worse = copy.deepcopy(predicted_cells(read_results(FOLDER / "full.json.gz")))
    for cell in worse:
        cell["offline"]["grouptd"]["gain"] = 0.0
    assert next(p for p in check_predictions(worse) if p["id"] == "P01")["hit"] is False


def test_outcomes_and_correlations_follow_from_the_cells(run):
    if run["predictions"]:
        assert check_predictions(predicted_cells(run)) == run["predictions"]["checked"]
    for suite in run["suites"]:
        assert correlations(suite["cells"]) == suite["correlations"]


def test_the_sanity_checks_pass(run):
    require_sane(run)


def test_the_command_and_the_commit_are_recorded(run):
    assert run["provenance"]["command"].startswith("creditflow bench --preset")
    assert len(run["provenance"]["commit"]) >= 7
    assert not run["provenance"]["commit"].endswith("dirty")


@pytest.mark.parametrize("path", [*RUNS, *LANGUAGE_MODEL_RUNS], ids=lambda path: path.name)
def test_the_committed_text_is_the_report_of_the_committed_results(path):
    text = document_text(read_results(path)) + "\n"
    assert path.with_name(path.name.replace(".json.gz", ".txt")).read_text(encoding="utf-8") == text


def test_the_pooled_tables_are_those_of_the_language_model_runs():
    runs = [read_results(path) for path in LANGUAGE_MODEL_RUNS]
    assert (LANGUAGE_MODELS / "pooled.txt").read_text(encoding="utf-8") == pooled_tables(runs) + "\n"
    assert page_table(runs) in (LANGUAGE_MODELS / "README.md").read_text(encoding="utf-8")
    for run in runs:
        require_sane(run)


def pooled(method, other, endpoint, runs):
    """A difference in points as pages print it."""
    families = [family for run in runs for family in run["language_models"]["families"].values()]
    return Estimate.of(pooled_difference(families, method, other, endpoint)).times(100).text(1).replace("-", "−")


def test_the_pages_quote_the_pooled_runs_of_language_models():
    runs = [read_results(path) for path in LANGUAGE_MODEL_RUNS]
    pages = {
        name: " ".join((ROOT / "assets/site/pages" / f"{name}.md").read_text("utf-8").split())
        for name in ("benchmark/verdict", "concepts/when_credit_fails", "concepts/shared_parameters")
    }
    own = " ".join((LANGUAGE_MODELS / "README.md").read_text("utf-8").split())
    temperature = pooled("grpo", "best temperature", "held-out final", runs)
    assert f"best temperature ended only {temperature} points below `grpo`" in pages["concepts/when_credit_fails"]
    assert f"ended only {temperature.split()[0]} points above the start at its best temperature" in (
        ROOT / "README.md"
    ).read_text("utf-8")
    for method in ("gagpo", "grouptd"):
        assert f"+{pooled(method, 'grpo', 'held-out area', runs)} |" in pages["concepts/shared_parameters"]
    imitation = pooled("more imitation", "grouptd", "held-out final", runs)
    assert f"level with `grouptd` when actions are sampled ({imitation})" in pages["benchmark/verdict"]
    greedily = pooled("more imitation", "grouptd", "held-out greedy", runs)
    for page in (pages["benchmark/verdict"], pages["concepts/when_credit_fails"]):
        assert f"{float(greedily.split()[0]):.0f} points ahead when they are greedy" in page
    for method, other in (("grouptd", "graphgpo"), ("oracle_adv", "grouptd"), ("oracle_adv", "stateless")):
        assert f"{pooled(method, other, 'held-out area', runs)} ahead of" in own, method


def test_the_runs_of_language_models_agree_as_the_page_says():
    first, second = ([read_results(path)] for path in LANGUAGE_MODEL_RUNS)
    [families] = [run["language_models"]["families"] for run in first]
    largest = 0.0
    for method in families["pits"]["runs"]:
        means, intervals = [], []
        for runs in (first, second):
            found = pooled_difference(
                list(runs[0]["language_models"]["families"].values()), method, "grpo", "held-out area"
            )
            means.append(found.mean)
            intervals.append(found.interval)
        largest = max(largest, abs(means[0] - means[1]))
        if method != "grpo":
            assert intervals[0][0] <= means[1] <= intervals[0][1], method
            assert intervals[1][0] <= means[0] <= intervals[1][1], method
    assert round(100 * largest, 1) == 1.1
