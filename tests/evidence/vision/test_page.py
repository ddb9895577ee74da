"""The committed evidence on the policy that reads pictures follows from its values by task, and the page repeats it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from evidence.quickstart.run import compare

from creditflow.train.settings.schema import load_settings

FOLDER = Path(__file__).parent
NAMES = ("vision", "more_demonstrations")
ALL = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii")) for name in NAMES}
EVIDENCE = ALL["vision"]
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def points(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "−")


@pytest.mark.parametrize("name", NAMES)
def test_the_differences_follow_from_the_values_by_task(name: str) -> None:
    assert compare(ALL[name]["seeds"]) == ALL[name]["differences"]


@pytest.mark.parametrize("name", NAMES)
def test_the_evidence_is_of_the_configuration_beside_it(name: str) -> None:
    path = FOLDER / f"{name}.yaml"
    assert ALL[name]["config_sha256"] == sha256(path.read_bytes()).hexdigest()
    assert load_settings(path).env.options["obs_mode"] == "rgb"


@pytest.mark.parametrize("name", EVIDENCE["differences"])
def test_the_page_repeats_every_difference(name: str) -> None:
    gap = EVIDENCE["differences"][name]
    sign = "+" if gap["mean"] > 0 else ""
    assert f"{sign}{points(gap['mean'])} [{points(gap['low'])}, {points(gap['high'])}]" in PAGE


@pytest.mark.parametrize(
    "seed", [seed for found in ALL.values() for seed in found["seeds"]], ids=lambda seed: f"seed {seed['seed']}"
)
def test_more_imitation_had_as_much_compute(seed: dict) -> None:
    arms = seed["arms"]
    assert arms["same"]["cpu_seconds"] >= arms["rl"]["cpu_seconds"]
    assert {len(arm[kind]) for arm in arms.values() for kind in ("sampled", "greedy")} == {48}
