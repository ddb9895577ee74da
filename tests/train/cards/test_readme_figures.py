"""The README's table of findings and the site's verdict have the numbers of the stored results, and no number has two values."""

from __future__ import annotations

import re

import pytest
from evidence.settings.tables import leads_of, level_table, mean_lead
from helpers.shared_data import ROOT

from creditflow import credit
from creditflow.envs.registration import ENVIRONMENTS
from creditflow.train.bench.report.design import design_of, pairs_of
from creditflow.train.bench.results import read_results
from creditflow.train.cards.figures import shipped

EVIDENCE = ROOT / "tests" / "evidence"
METHODS = ("gigpo", "graphgpo", "grouptd", "oracle_adv")


def regime(name: str) -> list[float]:
    return [shipped().measured[method][name]["learning"].mean for method in METHODS]


def protocol(optimiser: str) -> list[float]:
    [suite] = read_results(EVIDENCE / "protocol" / "first.json.gz")["suites"]
    design = design_of(suite)
    assert design is not None
    pairs = {pair.better: pair for pair in pairs_of(design, list(design.methods)) if pair.worse == "grpo"}
    return [pairs[method].levels["optimiser"][optimiser].mean for method in METHODS]


def settings() -> list[float]:
    leads = leads_of(EVIDENCE / "settings" / "results.jsonl")
    return [mean_lead(leads, method).mean / 100.0 for method in METHODS]


def form(setting: str) -> list[float]:
    page = (EVIDENCE / "ladder" / "README.md").read_text("utf-8")
    tables = page[page.index("Area minus `grpo`'s, mean of both families") :].splitlines()
    heads, *rows = [line.strip("| ").split(" | ") for line in tables if line.startswith("| ")]
    [cells] = [
        dict(zip(heads, row, strict=True))
        for row in rows[: rows.index(next(r for r in rows if r[2] == "stateless, %"))]
        if row[0] == setting
    ]
    return [float(cells[method].split(" [")[0]) / 100.0 for method in METHODS]


ROWS = {
    "one policy for many tasks": lambda: regime("shared"),
    "small language models, held-out tasks": lambda: regime("language models"),
    "one protocol for all methods, steps of equal KL divergence": lambda: protocol("KL steps"),
    "the same protocol with Adam, rate 0.03": lambda: protocol("Adam 0.03"),
    "the same protocol with Adam, rate 0.1, the best of four for these schemes": lambda: protocol("Adam 0.1"),
    "language models that plan two moves first": lambda: form("plan"),
    "language models that spell their actions in letters": lambda: form("letters"),
    "language models that see their last action": lambda: form("history"),
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


def test_the_verdict_has_the_table_of_the_stored_settings() -> None:
    runs = [leads_of(EVIDENCE / "settings" / name) for name in ("results.jsonl", "second.jsonl")]
    page = (ROOT / "assets/site/pages/benchmark/verdict.md").read_text("utf-8")
    assert level_table(runs) in page
    assert f"[{len(runs[0])} settings](../evidence/settings.md)" in page


SITE = "assets/site/pages/"
QUANTITY = r"([-+\d.]+ (?:\[[^]]+\]|± [\d.]+))"  # a mean and its interval
FOUR = r"(\d+){0}Sokoban, (\d+){0}ALFWorld, (\d+){0}WebShop and (\d+){0}WikiSearch"
# number -> the files that quote it, and where it stands there
QUOTED = {
    "schemes of the demo": {
        "README.md": r"compares (\w+) schemes and writes",
        "Makefile": r"measure (\w+) credit schemes",
        SITE + "start/demo.md": r"compares (\w+) schemes in",
    },
    "minutes of the demo": {
        "README.md": r"make demo *# about (\w+) minutes",
        SITE + "start/demo.md": r"schemes in about (\w+) minutes",
    },
    "minutes of the quickstart": {
        SITE + "how_to/train.md": r"48 iterations and takes about (\w+) minutes",
        SITE + "how_to/small_model.md": r"Training then takes (\w+) minutes",
    },
    "parameters of the language models": {
        "README.md": r"language models have ([\d.]+) million",
        SITE + "benchmark/verdict.md": r"language models of ([\d.]+) M",
    },
    "settings in which grouptd is within two points of the best": {
        "README.md": r"within two points of the best scheme in (\d+) settings",
        SITE + "benchmark/verdict.md": r"within two points of the best scheme in (\d+) of",
        "tests/evidence/settings/README.md": r"points of the best scheme in (\d+) of 96",
    },
    "lead of grouptd over graphgpo under KL steps": {
        SITE + "benchmark/verdict.md": rf"`graphgpo` is {QUANTITY} points under steps",
        "tests/evidence/protocol/README.md": rf"Seed 71:.*?\| grouptd − graphgpo (?:\| [^|]+ ){{3}}\| {QUANTITY}.*Seed 72",
    },
    "lead of grouptd in search, one base model": {
        SITE + "benchmark/verdict.md": rf"`grouptd`'s {QUANTITY} points with one base model",
        "tests/evidence/entity_learning/README.md": rf"\| `grouptd` \(primary\) \| {QUANTITY}",
    },
    "transitions of Search-R1 that are unique, per cent": {
        SITE + "benchmark/verdict.md": r"rollouts ([\d.]+)% of the transitions",
        "tests/evidence/analyses/README.md": r"unique among transitions, 2 rollouts \| ([\d.]+)%",
    },
    "settings and suites of the rules for a choice": {
        "train/analyses/audit_advice.py": r"On (\d+) settings of (\d+) suites",
        "tests/evidence/choice/README.md": r"There are (\d+) settings of (\d+) suites",
    },
    "gain of dense rewards in Q-learning": {
        "README.md": "during learning by " + FOUR.format("(?: points)? on "),
        SITE + "how_to/dense_rewards.md": "during learning by " + FOUR.format("(?: points)? on "),
        "tests/evidence/dense_rewards/README.md": "gain " + FOUR.format("(?: points of success while learning)? on "),
    },
    "gain of experience replay": {
        "README.md": r"gained (\d+), (\d+), (\d+) and (\d+)\.",
        SITE + "how_to/dense_rewards.md": r"potential, gained (\d+), (\d+), (\d+) and (\d+),",
        "tests/evidence/dense_rewards/README.md": r"It gains (\d+), (\d+), (\d+) and (\d+) points",
    },
}


@pytest.mark.parametrize("number", QUOTED)
def test_a_number_has_one_value_wherever_it_is_quoted(number: str) -> None:
    values = {}
    for file, pattern in QUOTED[number].items():
        text = " ".join((ROOT / file).read_text("utf-8").split())
        [found] = {match.groups() for match in re.finditer(pattern, text)}
        values[file] = [value.replace("+", "") for value in found]
    assert len({*map(tuple, values.values())}) == 1, values


def test_the_readme_counts_what_there_is() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert f"**[{len(credit.names())} credit schemes](" in text
    assert f"**[{dict(enumerate(('Three', 'Four', 'Five', 'Six'), 3))[len(ENVIRONMENTS)]} environments](" in text
