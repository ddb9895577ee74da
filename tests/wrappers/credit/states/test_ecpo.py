"""ECPO: the worked example, the cancellation of its shrinkage, its gate, and its edge cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import DENSE, SPARSE, groups
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.records.group import Group

quick = settings(max_examples=40)


def ecpo(**options: Any) -> credit.Scheme:
    return credit.make("ecpo", **options)


def choices(**outcomes: tuple[int, ...]) -> Group:
    """One turn at one state: for each action the outcomes of the rollouts that took it."""
    return group(
        *[
            walk("s end", "success" if won else "failed", actions=[action], name=f"{action}{i}")
            for action, wins in outcomes.items()
            for i, won in enumerate(wins)
        ]
    )


ONE_AND_FOUR = choices(u=(1,), v=(1, 1, 0, 0))
THREE = choices(u=(1,), v=(1, 1, 0, 0), w=(0, 0))


def action_advantages(scheme: credit.Scheme, played: Group = ONE_AND_FOUR) -> list[float]:
    return [float(x) for x in scheme.assign(played).diagnostics["action_advantage"]]


def test_the_worked_example():
    scored = ecpo().assign(ONE_AND_FOUR)
    np.testing.assert_allclose(scored.diagnostics["action_advantage"], [2.0, -0.5, -0.5, -0.5, -0.5], atol=1e-9)
    gate = dict(zip(scored.diagnostics["node_keys"], scored.diagnostics["gate"], strict=True))
    assert gate["s"] == pytest.approx(0.1414, abs=5e-5)
    np.testing.assert_allclose(scored.flat_step_advantages, 0.1414 * np.array([2.0, *[-0.5] * 4]), atol=1e-4)
    # GiGPO gives the same action of v's turns two signs
    gigpo = credit.make("gigpo").assign(ONE_AND_FOUR).flat_step_advantages
    assert gigpo[1] > 0.0 > gigpo[3]


@quick
@given(shrinkage=st.floats(0, 50), wins=st.lists(st.integers(0, 1), min_size=1, max_size=5))
def test_with_two_actions_the_z_score_cancels_the_shrinkage(shrinkage, wins):
    played = choices(u=(1,), v=(0, *wins))
    expected = action_advantages(ecpo(shrinkage=0.0), played)
    np.testing.assert_allclose(action_advantages(ecpo(shrinkage=shrinkage), played), expected, atol=1e-6)


def test_the_shrinkage_acts_with_three_actions():
    near, far = (action_advantages(ecpo(shrinkage=k), THREE) for k in (0.0, 20.0))
    assert not np.allclose(near, far, rtol=1e-3)


def test_one_action_alone_a_state_visited_once_and_equal_returns_get_no_step_credit():
    one_action = choices(u=(1, 0, 0))
    once = group(walk("s a g"), walk("t b x", "failed"))
    equal = choices(u=(1, 1), v=(1,))
    for played in (one_action, once, equal):
        assert not ecpo().assign(played).flat_step_advantages.any()


def test_the_gate_opens_with_visits_and_with_variance_between_actions():
    few, many = (choices(u=(1,) * n, v=(0,) * n) for n in (1, 20))
    gates = [float(ecpo().assign(g).diagnostics["gate"].max()) for g in (few, many)]
    assert gates[0] == pytest.approx(np.tanh(0.5), rel=1e-5)
    assert gates[1] == pytest.approx(1.0, rel=1e-5)


def test_the_outcome_part_is_that_of_grpo():
    grpo = credit.make("grpo").assign(THREE).outcome_advantages
    np.testing.assert_array_equal(ecpo().assign(THREE).outcome_advantages, grpo)
    assert (
        ecpo(step_weight=0.0).assign(THREE).flat_advantages.tolist()
        == credit.make("grpo").assign(THREE).flat_advantages.tolist()
    )


def test_a_penalty_in_the_score_makes_an_invalid_turn_the_worse_action():
    played = group(walk("s x", "failed", invalid=[0]), walk("s y", "failed"))
    scored = ecpo(invalid_penalty=0.1).assign(played)
    # scores −.1 and 0, each its own action: z ±1, and the gate is tanh(2/4)
    np.testing.assert_allclose(scored.diagnostics["action_advantage"], [-1.0, 1.0])
    np.testing.assert_allclose(scored.diagnostics["step_advantage"], np.tanh(0.5) * np.array([-1.0, 1.0]))


def test_an_invalid_turn_is_an_action_of_its_own():
    # both malformed turns have the text "a", and are neither merged with the valid one nor with each other
    played = group(
        walk("s x", "success", actions=["a"], name="valid"),
        walk("s x", "failed", actions=["a"], invalid=[0], name="first"),
        walk("s x", "failed", actions=["a"], invalid=[0], name="second"),
    )
    # Ḡ 1, 0, 0, each shrunk by 2 turns at μ 1/3: μ̃ 5/9, 2/9, 2/9; three classes of one turn, W = 0, B = 2/9
    assert action_advantages(ecpo(), played) == pytest.approx([2**0.5, -(0.5**0.5), -(0.5**0.5)])
    assert float(ecpo().assign(played).diagnostics["gate"].max()) == pytest.approx(np.tanh(0.75), rel=1e-4)


def test_unequal_lengths_are_no_ties():
    report = credit.check_credit(ecpo(), draws=20)
    assert not report.holds("stopping_time")
    assert ecpo().assign(group(walk("s g"), walk("s a g"))).flat_advantages[0] > 0.0


@quick
@given(g=groups(rewards=SPARSE, ends=("failed", "env_limit", "format")))
def test_a_group_without_success_gets_exactly_zero(g):
    assert not ecpo().assign(g).flat_advantages.any()


@quick
@given(g=groups(rewards=DENSE))
def test_all_turns_with_one_action_at_one_state_get_one_step_credit(g):
    step = ecpo().assign(g).flat_step_advantages
    found: dict[tuple[int, int], float] = {}
    for turn in np.flatnonzero(g.arrays.valid).tolist():
        key = int(g.arrays.state[turn]), int(g.arrays.action[turn])
        assert found.setdefault(key, float(step[turn])) == pytest.approx(float(step[turn]), abs=1e-12)


@quick
@given(seed=st.integers(0, 10**6))
def test_a_branch_gets_the_credit_of_its_full_episode(seed):
    rng = np.random.default_rng(seed)
    stored, full = random_fork(rng, random_group(rng, dense=True))
    # an invalid turn of a shared prefix is one class in the branch and its parent, but two in independent episodes
    stored, full = (valid(g) for g in (stored, full))
    got, expected = (ecpo().assign(g).advantages for g in (stored, full))
    np.testing.assert_allclose(np.concatenate(got[:-1]), np.concatenate(expected[:-1]), atol=1e-9)
    np.testing.assert_allclose(got[-1], expected[-1][stored.trajectories[-1].fork_turn :], atol=1e-9)


def valid(played: Group) -> Group:
    return Group(
        tuple(replace(m, turns=tuple(replace(t, parsed=True) for t in m.turns)) for m in played.trajectories),
        played.task,
    )


@quick
@given(g=groups(rewards=DENSE))
def test_text_keys_that_distinguish_the_same_states_give_the_same_credit(g):
    assert ecpo(key="text").assign(g).flat_advantages.tolist() == ecpo().assign(g).flat_advantages.tolist()


@pytest.mark.parametrize("options", [{"shrinkage": -1.0}, {"gate_turns": 0.0}, {"discount": 2.0}])
def test_options_out_of_range_are_rejected_by_name(options):
    with pytest.raises(ConfigError, match=rf"ecpo\.{next(iter(options))} must lie in"):
        ecpo(**options)


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e-154, 1e150])
def test_the_unit_of_rewards_does_not_matter_where_their_squares_vanish(unit: float) -> None:
    def scored(scale: float) -> Any:
        members = [
            walk("s a g", reward=scale, name="x"),
            walk("s a g", reward=scale / 2, name="y"),
            walk("s b", "failed"),
        ]
        return credit.make("ecpo").assign(group(*members)).flat_advantages

    np.testing.assert_allclose(scored(unit), scored(1.0), rtol=1e-9, atol=1e-12)
