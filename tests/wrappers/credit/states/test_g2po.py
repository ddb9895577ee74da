"""G2PO: the worked example by hand, the released code's numbers, and what each term compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import DENSE, groups
from hypothesis import given, settings

from creditflow import credit

quick = settings(max_examples=30)
PATHS = group(
    walk("s x end", name="won"), walk("s x end", "failed", name="lost"), walk("s y end", "failed", name="away")
)


def g2po(**options: Any) -> credit.Scheme:
    return credit.make("g2po", **{"discount": 0.5, **options})


def test_a_states_value_is_the_mean_discounted_outcome_of_its_visits() -> None:
    diagnostics = g2po().assign(PATHS).diagnostics
    value = dict(zip(diagnostics["node_keys"], diagnostics["values"], strict=True))
    assert value["s"] == pytest.approx((0.25 + 0 + 0) / 3)  # two turns before the end: γ² = .25
    assert value["x"] == pytest.approx((0.5 + 0) / 2)
    assert value["y"] == 0.0


def test_the_worked_example() -> None:
    # V(s) = 1/12, V(x) = 1/4, V(y) = 0; after the last turn 1, 0, 0. Temporal differences by turn:
    differences = np.array([1 / 6, 3 / 4, 1 / 6, -1 / 4, -1 / 12, 0])
    scored = g2po().assign(PATHS)
    np.testing.assert_allclose(scored.flat_step_rewards, differences)
    # in s the next values are (1/4, 1/4, 0): mean 1/6, sample deviation √(1/48); in x they are (1, 0): deviation √(1/2)
    in_state = np.array([1 / 12 * 48**0.5, 0.5**0.5, 1 / 12 * 48**0.5, -(0.5**0.5), -1 / 6 * 48**0.5, 0])
    # over the graph: mean 1/8, the squares of the differences to it sum to 19/32, so the deviation is √(19/160)
    on_graph = (differences - 1 / 8) / (19 / 160) ** 0.5
    # outcomes (1, 0, 0): mean 1/3, sample deviation √(1/3)
    outcome = np.repeat(np.array([2 / 3, -1 / 3, -1 / 3]) * 3**0.5, 2)
    np.testing.assert_allclose(scored.flat_advantages, outcome + in_state + on_graph)


def test_the_release_only_centres() -> None:
    scored = credit.make("g2po", semantics="release", key="state", discount=0.5).assign(PATHS)
    in_state = np.array([1 / 12, 1 / 2, 1 / 12, -1 / 2, -1 / 6, 0])
    on_graph = np.array([1 / 6, 3 / 4, 1 / 6, -1 / 4, -1 / 12, 0]) - 1 / 8
    np.testing.assert_allclose(
        scored.flat_advantages, np.repeat([2 / 3, -1 / 3, -1 / 3], 2) + in_state + on_graph, atol=1e-12
    )


@pytest.mark.parametrize(
    ("scale", "released"),
    [
        ("none", [4.442187, 12.248437, -5.557813, -8.926563, -5.557813, -15.545313, 4.442187, 14.454687]),
        ("std", [0.758488, 3.020449, -1.10764, -1.98075, -1.10764, -3.361845, 0.758488, 3.020449]),
    ],
    ids=["mean_norm", "mean_std_norm"],
)
def test_the_release_agrees_with_the_released_code(scale: str, released: list[float]) -> None:
    # g2po/core_g2po.py @ b8ffaf5 on these three rollouts, whose second one has an invalid second turn (penalty 0.1)
    played = group(
        walk("s x end", name="won", reward=10.0),
        walk("s x s y end", "failed", name="lost", invalid=(1,)),
        walk("s y end", name="again", reward=10.0),
    )
    scheme = credit.make("g2po", semantics="release", key="state", scale=scale)
    np.testing.assert_allclose(scheme.assign(played).flat_advantages, released, atol=2e-5)


@quick
@given(g=groups(rewards=DENSE))
def test_the_temporal_differences_of_a_group_are_centred(g: Any) -> None:
    scored = g2po(scale="none", step_weight=1.0).assign(g)
    both = scored.step_terms["temporal difference, among all edges"]
    assert both.sum() == pytest.approx(0.0, abs=1e-8 * max(1.0, np.abs(both).max(initial=0.0)))


def test_a_turn_gets_the_value_of_the_state_that_it_leads_to_not_its_own_outcome() -> None:
    # both rollouts go from s to x, where one of them fails: their first turns get the same step advantage
    first, second = g2po().assign(group(walk("s x end"), walk("s x end", "failed", name="lost"))).step_advantages
    assert first[0] == second[0]
    assert first[1] > second[1]


def test_a_failure_after_the_last_turn_is_worth_nothing_though_its_score_counts_in_the_values() -> None:
    scored = g2po(outcome="score", scale="none").assign(
        group(walk("s end"), walk("s end", "failed", name="graded", reward=0.5))
    )
    assert scored.flat_step_rewards.tolist() == pytest.approx([1 - 0.25, 0 - 0.25])  # V(s) = γ (1 + 0) / 2
