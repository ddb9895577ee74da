"""The page of the three environments has the numbers of its stored results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from evidence.families.tables import lead, page_table
from helpers.shared_data import ROOT

from creditflow.train.bench.report.sanity import require_sane
from creditflow.train.bench.results import read_results

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def document():
    return read_results(HERE / "results.json.gz")


def test_the_page_has_the_table_of_the_stored_results(document):
    assert page_table(document) in (HERE / "README.md").read_text("utf-8")
    require_sane(document)


def test_outcomes_of_the_predictions_are_those_of_the_results(document):
    suites = {suite["name"]: suite for suite in document["suites"]}
    assert all(lead(suites[name], "grouptd").low > 0.0 for name in ("alfworld", "webshop"))  # F1
    search = {
        name: lead(suites["wikisearch"], name).low > 0.0 for name in suites["wikisearch"]["schemes"] if name != "grpo"
    }
    assert [name for name, ahead in search.items() if not ahead] == ["milegpo"]  # F2
    pairs = {name: lead(suite, "grouptd", "graphgpo") for name, suite in suites.items()}
    assert pairs["alfworld"].low < 0.0 < pairs["alfworld"].high  # F3
    assert min(pairs["webshop"].low, pairs["wikisearch"].low) > 0.0
    assert [name for name, suite in suites.items() if lead(suite, "stateless").mean < 0.0] == ["wikisearch"]  # F4
    assert all(abs(lead(suite, "blend", "grouptd").mean) < 2.0 for suite in suites.values())  # F5
    shuffled = lead(suites["wikisearch"], "shuffled(gigpo)")
    assert round(shuffled.mean, 1) == 1.2
    assert shuffled.low > 0.0


def test_readme_and_verdict_quote_the_leads(document):
    leads = {name: [lead(suite, name) for suite in document["suites"]] for name in ("graphgpo", "grouptd", "stateless")}
    short = {name: [f"{one.mean:.1f}".replace("-", "−") for one in of] for name, of in leads.items()}
    readme = (ROOT / "README.md").read_text("utf-8")
    text = "`graphgpo` gains {}, {} and {} points over `grpo`, and the control {}, {} and {}."
    assert text.format(*short["graphgpo"], *short["stateless"]) in readme
    verdict = " ".join((ROOT / "assets/site/pages/benchmark/verdict.md").read_text("utf-8").split())
    for of in leads.values():
        cells = [f"{one.mean:.1f} [{one.low:.1f}, {one.high:.1f}]".replace("-", "−") for one in of]
        assert re.search(f"{re.escape(cells[0])}, {re.escape(cells[1])} and {re.escape(cells[2])}", verdict)
