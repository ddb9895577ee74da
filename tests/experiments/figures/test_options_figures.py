"""The page on the options of grouptd repeats the differences that follow from the stored areas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from experiments.grouptd_options import KINDS, METHODS, SEED

from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables.shared import over_seeds
from creditflow.train.bench.studies import Study

FOLDER = Path(__file__).parents[2] / "evidence" / "choice"
EVIDENCE = json.loads((FOLDER / "options.json").read_text(encoding="ascii"))
STUDIES = {study.kind: study for study in map(Study.from_json, EVIDENCE["studies"])}
COLUMNS = (
    ("area", "grouptd", "grpo"),
    ("area", "grouptd_relative_8", "grouptd"),
    ("held_out_area", "grouptd_relative_8", "grouptd"),
    ("area", "grouptd_relative_det", "grouptd"),
    ("area", "grouptd_relative_share", "grouptd"),
)


def test_the_evidence_is_of_the_present_script():
    assert tuple(STUDIES) == KINDS
    assert all(tuple(study.results("area")) == METHODS for study in STUDIES.values())
    assert EVIDENCE["provenance"]["seed"] == SEED
    assert not EVIDENCE["provenance"]["commit"].endswith("dirty")


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_repeats_every_difference(kind):
    cells = []
    for endpoint, method, other in COLUMNS:
        found = Estimate.of(over_seeds([STUDIES[kind]], endpoint)(method, other))
        cells.append(Estimate(100 * found.mean, 100 * found.low, 100 * found.high).text(1, "+").replace("-", "−"))
    assert f"| {kind} | {' | '.join(cells)} |" in (FOLDER / "README.md").read_text(encoding="utf-8")
