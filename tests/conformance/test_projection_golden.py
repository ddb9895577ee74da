"""The compatibility parser reads completions exactly as the published agents' projections do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.shared_data import shared_files

from creditflow.agents.language_model.parsing import PROJECTIONS, make_dialect

CASES: list[dict[str, Any]] = [
    case
    for path in shared_files("conformance/credit/projection*.json")
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
]
WORDS = {0: "still", 1: "up", 2: "down", 3: "left", 4: "right"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['env']}:{case['response'][:40]!r}")
def test_projection_equals_the_released_one(case: dict[str, Any]) -> None:
    action, reason = PROJECTIONS[case["env"]](case["response"])
    assert (action, not reason) == (case["action"], case["valid"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['env']}:{case['response'][:40]!r}")
def test_dialect_gives_the_same_action_as_text(case: dict[str, Any]) -> None:
    parsed = make_dialect(f"verl_agent:{case['env']}").parse(case["response"])
    action = case["action"]
    assert (parsed.action, parsed.valid) == (WORDS[action] if isinstance(action, int) else action, case["valid"])
    assert bool(parsed.reason) != parsed.valid


def test_all_four_environments_are_covered() -> None:
    assert {case["env"] for case in CASES} == {"alfworld", "webshop", "sokoban", "search"}
