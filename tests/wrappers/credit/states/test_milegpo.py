"""MileGPO: the worked example of our reading of its abstract, and the tests that a milestone or trap must pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit

PLAYED = group(walk("s a end"), walk("s b end", "failed", name="lost"), walk("s b end", "failed", name="lost again"))


def milegpo(**options: Any) -> credit.Scheme:
    return credit.make("milegpo", **options)


def test_the_worked_example() -> None:
    scored = milegpo().assign(PLAYED)
    # ρ = (1 + 1) / (3 + 2) = .4; a: p = (1 + .8) / 3 = .6, confidence (.6 − .4) / .6; b: p = .8 / 4 = .2, (.4 − .2) / .4
    keys = scored.diagnostics["node_keys"]
    assert scored.diagnostics["milestone"][keys.index("a")] == pytest.approx(1 / 3)
    assert scored.diagnostics["trap"][keys.index("b")] == pytest.approx(1 / 2)
    # s → a wins always, its alternative never; the second turns have no alternative
    np.testing.assert_allclose(scored.flat_step_advantages, [1 / 3, 0, -1 / 2, 0, -1 / 2, 0])
    np.testing.assert_allclose(scored.outcome_advantages, np.array([2 / 3, -1 / 3, -1 / 3]) * 3**0.5)


def test_a_state_that_one_failure_visits_is_no_trap() -> None:
    played = group(walk("s a end"), walk("s b end", "failed"))
    assert milegpo().assign(played).step_advantages[1][0] == 0.0


def test_a_detour_to_a_milestone_gets_nothing_because_it_is_no_progress() -> None:
    # the loop s → b → s and the way over a both end in success: from s, b is farther from it
    played = group(walk("s b s a end"), walk("s a end"), walk("s c end", "failed"), walk("s c end", "failed", name="c"))
    step = milegpo().assign(played).step_advantages
    assert step[0][0] == 0.0
    assert step[1][0] > 0.0


def test_a_transition_that_does_no_better_than_its_alternatives_gets_nothing() -> None:
    played = group(walk("s a end"), walk("s b end"), walk("s c end"))
    assert not milegpo().assign(played).flat_step_advantages.any()


def test_a_state_of_successes_and_failures_is_worth_less_than_one_of_successes_alone() -> None:
    played = group(
        walk("s a x end"), walk("s a x end", name="two"), walk("s b y end"), walk("s b z end", "failed"),
        walk("s c end", "failed"),
    )  # fmt: skip
    milestone = milegpo().assign(played).diagnostics
    worth = dict(zip(milestone["node_keys"], milestone["milestone"], strict=False))
    assert worth["a"] > worth["b"] >= 0.0
