"""The committed evidence on the quickstart follows from its values by task, and the page repeats it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from evidence.quickstart.run import CONFIG, PLANNED, TEMPERATURES, compare

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "evidence" / "quickstart"
EVIDENCE = json.loads((FOLDER / "quickstart.json").read_text(encoding="ascii"))


def points(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "−")


def test_the_differences_follow_from_the_values_by_task():
    assert compare(EVIDENCE["seeds"]) == EVIDENCE["differences"]


def test_the_evidence_is_of_the_present_configuration():
    assert EVIDENCE["config_sha256"] == sha256((ROOT / CONFIG).read_bytes()).hexdigest()


@pytest.mark.parametrize("name", PLANNED)
def test_the_page_repeats_every_difference(name):
    gap = EVIDENCE["differences"][name]
    sign = "+" if gap["mean"] > 0 else ""
    text = f"{sign}{points(gap['mean'])} [{points(gap['low'])}, {points(gap['high'])}]"
    assert text in (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", EVIDENCE["seeds"], ids=lambda seed: f"seed {seed['seed']}")
def test_rivals_had_as_much_compute_and_chose_their_best_on_the_valid_split(seed):
    arms = seed["arms"]
    for name in ("same", "unlimited"):
        arm = arms[name]
        curve = arm["curve"] + arm.get("short", [])
        assert arm["cpu_seconds"] >= arms["rl"]["cpu_seconds"]
        chosen = curve[arm["sampled_checkpoint"]]["sampled"][f"{arm['temperature']:g}"]
        assert chosen == max(value for point in curve for value in point["sampled"].values())
        assert curve[arm["greedy_checkpoint"]]["greedy"] == max(point["greedy"] for point in curve)
        assert len(curve[0]["sampled"]) == len(TEMPERATURES)
    assert {len(arm[kind]) for arm in arms.values() for kind in ("sampled", "greedy")} == {256}
    assert all(0.0 <= np.mean(arm["greedy"]) <= 1.0 for arm in arms.values())
