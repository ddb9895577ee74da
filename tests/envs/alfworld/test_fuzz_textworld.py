"""The differential fuzzer against the real engine, and the evidence of its last full run."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
from shared_data import ROOT, shared_file

EVIDENCE = ROOT / "tests" / "evidence" / "alfworld_fuzz.json"
RARE = (
    "verb slice",
    "floor list shown",
    "at co-located receptacles",
    "object in two receptacles somewhere",
    "container with contents examined",
    "verb refused",
    "won",
    *(f"property sentence {i}" for i in range(15) if i != 12),  # 12 needs a fact that the engine never states
)


def test_the_committed_evidence_covers_every_rare_branch_without_a_disagreement() -> None:
    report = json.loads(EVIDENCE.read_text())
    assert report["disagreements"] == []
    assert report["counts"]["games"] >= 200
    assert report["counts"]["steps"] >= 10_000
    assert [branch for branch in RARE if not report["counts"].get(branch)] == []
    assert set(report["versions"]) >= {"alfworld", "textworld", "fast-downward-textworld", "python"}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("alfworld") is None,
    reason="the real engine is not installed: pip install 'creditflow[alfworld]'",
)
def test_both_engines_agree_on_two_hundred_games(tmp_path) -> None:
    archive = shared_file("data/alfworld/alfworld_games_full.tar.xz")
    command = [sys.executable, str(ROOT / "tests" / "alfworld_fuzz.py"), "--archive", str(archive), "--games", "210"]
    subprocess.run([*command, "--steps", "60", "--out", str(tmp_path / "fuzz.json")], check=True)
