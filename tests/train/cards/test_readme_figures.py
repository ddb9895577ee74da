"""The README's table of findings and the site's verdict have the numbers of the stored results."""

from __future__ import annotations

import pytest
from evidence.settings.tables import leads_of, mean_lead
from helpers.shared_data import ROOT

from creditflow.train.bench.report.design import design_of, pairs_of
from creditflow.train.bench.report.tidy import results_of
from creditflow.train.bench.results import read_results
from creditflow.train.cards.figures import shipped

EVIDENCE = ROOT / "tests" / "evidence"
METHODS = ("gigpo", "graphgpo", "grouptd", "oracle_adv")


def regime(name: str) -> list[float]:
    return [shipped().measured[method][name]["learning"].mean for method in METHODS]


def confirmation() -> list[float]:
    [suite] = [
        suite
        for suite in read_results(EVIDENCE / "confirmation" / "confirmation.json.gz")["suites"]
        if suite["name"] == "shared"
    ]
    results = results_of(suite)
    stored = {"grouptd": "grouptd_relative"}  # its name at the commit of that run
    return [results.mean("area", stored.get(method, method), "grpo").mean for method in METHODS]


def protocol(optimiser: str) -> list[float]:
    [suite] = read_results(EVIDENCE / "protocol" / "pits.json.gz")["suites"]
    design = design_of(suite)
    assert design is not None
    pairs = {pair.better: pair for pair in pairs_of(design, list(design.methods)) if pair.worse == "grpo"}
    return [pairs[method].levels["optimiser"][optimiser].mean for method in METHODS]


def settings() -> list[float]:
    leads = leads_of(EVIDENCE / "settings" / "results.jsonl")
    return [mean_lead(leads, method).mean / 100.0 for method in METHODS]


ROWS = {
    "one policy for many tasks": lambda: regime("shared"),
    "small language models, held-out tasks": lambda: regime("language models"),
    "17 settings that `grouptd` was not tuned on": confirmation,
    "one protocol for all methods, steps of equal KL divergence": lambda: protocol("KL steps"),
    "the same protocol with Adam, rate 0.03": lambda: protocol("Adam 0.03"),
    "96 settings: keys, wrong outcomes, slips, turn limits, group sizes": settings,
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_readme_has_the_stored_numbers(row: str) -> None:
    numbers = " | ".join(f"{100 * mean:+.1f}".replace("-", "−") for mean in ROWS[row]())
    assert f"\n| {row} | {numbers} |\n" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("method", ["grouptd", "oracle_adv"])
@pytest.mark.parametrize("regime", ["shared", "language models"])
def test_the_verdict_has_the_shipped_figures(method: str, regime: str) -> None:
    measured = shipped().measured[method][regime]["learning"]
    mean, low, high = (100.0 * x for x in (measured.mean, measured.low, measured.high))
    page = (ROOT / "assets/site/pages/benchmark/verdict.md").read_text("utf-8")
    assert f"+{mean:.1f} [{low:.1f}, {high:.1f}]" in page


@pytest.mark.parametrize("method", ["grouptd", "graphgpo", "g2po", "gigpo", "blend", "stateless"])
def test_the_verdict_has_the_leads_of_the_stored_settings(method: str) -> None:
    leads = leads_of(EVIDENCE / "settings" / "results.jsonl")
    page = (ROOT / "assets/site/pages/benchmark/verdict.md").read_text("utf-8")
    assert mean_lead(leads, method).text(1, "+") in page
    assert f"[{len(leads)} settings](../evidence/settings.md)" in page
