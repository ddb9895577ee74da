"""The study of labellers says what its page says."""

from __future__ import annotations

import json
from pathlib import Path

from evidence.pica.labels import study

FOLDER = Path(__file__).parent
STORED = json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))


def test_a_rule_over_queries_and_passages_cannot_see_omissions_and_misreadings():
    by_fault = study(15)["by_fault"]
    for fault in ("omission", "misreading"):
        assert by_fault[fault]["judge"] == 0 < by_fault[fault]["rule"]
    assert by_fault["deviation"]["judge"] == by_fault["deviation"]["rule"] == 0


def test_the_page_has_the_stored_counts():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    for count in STORED["by_fault"].values():
        assert f"| {count['searches']} | {count['judge']} | {count['rule']} | {count['equal']} |" in page
    assert f"{STORED['agreement']['equal']:.3f}".lstrip("0") in page
