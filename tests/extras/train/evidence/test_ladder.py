"""The ladder of sizes: its page has the table of its stored rows, and one of them is measured again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from evidence.ladder import run

from creditflow.train.bench.language_model.suite.run import learn, warm_up

STUDY = Path(run.__file__).parent
ROWS = [json.loads(line) for line in (STUDY / "results.jsonl").read_text("utf-8").splitlines()]


def test_the_page_has_the_table_of_the_stored_rows() -> None:
    page = (STUDY / "README.md").read_text("utf-8")
    assert run.table(ROWS) in page
    assert run.trends(ROWS) in page


def test_outcomes_of_the_predictions_are_those_of_the_stored_rows() -> None:
    def lead(family: str, size: str, method: str, other: str = "grpo") -> float:
        pair = [run.areas(ROWS, family, size, name) for name in (method, other)]
        return float(np.mean([pair[0][seed] - pair[1][seed] for seed in pair[1]]))

    assert lead("pits", "0.4", "grouptd") > 0.0 < lead("pits", "0.1", "grouptd")
    assert lead("pits", "0.4", "grouptd") > lead("pits", "0.1", "grouptd") / 2
    assert lead("sokoban", "0.4", "grouptd") < lead("sokoban", "0.1", "grouptd") / 2
    assert lead("pits", "0.1", "grouptd", "graphgpo") > 3.0
    assert lead("sokoban", "0.4", "stateless") > lead("sokoban", "0.4", "grouptd")
    assert lead("sokoban", "1.6", "grouptd") < lead("sokoban", "0.1", "grouptd")
    assert lead("pits", "1.6", "grouptd") > lead("pits", "0.1", "grouptd")
    leads = [(lead(f, s, "g2po"), lead(f, s, "graphgpo")) for f in run.FAMILIES for s in ("0.1", "0.4", "1.6")]
    assert all(first > 0.0 and abs(first - second) < 4.0 for first, second in leads)


def test_a_job_measured_again_equals_its_stored_row() -> None:
    """The start to four digits. Updates amplify the last bits, in which processors differ."""
    row = next(row for row in ROWS if row["job"] == ["0.1", "pits", 400, "stateless"])
    work = run.work_of("0.1", 400)
    curve = learn("pits", 400, "stateless", work, "cpu", warm_up("pits", 400, work, "cpu")["parameters"])
    for name in ("train", "held_out"):
        again = [float(np.mean(point[name]["sampled"])) for point in curve]
        assert again[0] == pytest.approx(row[name][0], abs=1e-4), name
        assert again == pytest.approx(row[name], abs=2e-3), name
