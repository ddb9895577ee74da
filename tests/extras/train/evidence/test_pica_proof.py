"""The proof of PiCA's success model: its splits, its second baseline, and a run whose exit status is its result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from evidence.pica.lexical import FEATURES, STANDINGS, standing_features
from evidence.pica.proof import main
from evidence.pica.world import SPLITS

from creditflow.wrappers.trajectory import Trajectory, Turn


@pytest.mark.parametrize("name", ["dev", "dev2", "retired"])
def test_the_final_split_shares_nothing_with_one_whose_result_is_known(name: str) -> None:
    seen, final = SPLITS[name], SPLITS["final"]
    assert not set(seen.relations) & set(final.relations)
    assert not set(seen.templates) & set(final.templates)
    assert seen.world != final.world


def test_the_second_baseline_counts_name_classes_in_action_and_result() -> None:
    turns = tuple(
        Turn(f"s{t}", action, f"s{t + 1}", observation=observation, queries=("q",))
        for t, (observation, action) in enumerate([("Find Elm", "search: Elm"), ("Elm Oak. Ash, Elm", "answer: Ash")])
    )
    member = Trajectory("0", "g", "k", turns, True, 1.0, "success", "s2")
    rows = standing_features(member, "Find Elm", frozenset({"find", "search", "answer"}))
    counts = np.expm1(rows[:, len(FEATURES) :]).reshape(2, 2, len(STANDINGS)).round()
    counted = [[{unit: n for unit, i in STANDINGS.items() if (n := counts[t, c, i])} for c in (0, 1)] for t in (0, 1)]
    assert counted == [[{"asked": 1.0}, {"new": 2.0, "askedlast1": 1.0}], [{"age0": 1.0}, {}]]


def test_the_proof_runs_and_its_exit_status_is_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "proof.json"
    code = main(["--quick", "--split", "dev", "--out", str(out)])
    found = json.loads(out.read_text())
    assert code == (0 if found["holds"] else 1)
    assert ("DOES NOT HOLD" in capsys.readouterr().out) == bool(code)
    value, low, high = found["auc_with_95_percent_interval"]["model"]
    assert low <= value <= high
    assert str(tmp_path) not in json.dumps(found["config"])
