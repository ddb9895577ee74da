"""The controls that read no states: worked examples, edge cases, and that nothing but outcomes and lengths matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.controls import position_baseline, stateless_discount
from creditflow.train.bench.exact.grid_layouts import generate_layout, grid_mdp
from creditflow.train.bench.exact.simulate import simulate
from creditflow.train.bench.methods import STATELESS, played_method
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

SEEDS = st.integers(0, 10**6)
CONTROLS = [stateless_discount(), stateless_discount(baseline="group"), position_baseline(), position_baseline(0.9)]
RACE = group(walk("s a b g"), walk("s g"), walk("s x", "failed"))


def test_the_outcome_is_discounted_by_the_turns_that_follow():
    step = np.concatenate(stateless_discount(0.5)(RACE).advantages)
    assert step.tolist() == [0.25, 0.5, 1.0, 1.0, 0.0]


def test_the_baselined_form_subtracts_the_mean_over_turns():
    # (.25 + .5 + 1 + 1 + 0) / 5 = .55
    step = stateless_discount(0.5, baseline="group")(RACE).flat_advantages
    np.testing.assert_allclose(step, [-0.3, -0.05, 0.45, 0.45, -0.55], rtol=1e-12)


def test_the_position_baseline_is_the_mean_of_the_rollouts_that_have_this_turn():
    # turn 0: outcomes 1, 1, 0; turns 1 and 2 belong to one rollout
    step = position_baseline()(RACE).flat_advantages
    np.testing.assert_allclose(step, [1 / 3, 0, 0, 1 / 3, -2 / 3], rtol=1e-12)
    # γ .5, turn 0: returns .25, 1, 0, mean 5/12
    step = position_baseline(0.5)(RACE).flat_advantages
    np.testing.assert_allclose(step, [-2 / 12, 0, 0, 7 / 12, -5 / 12], rtol=1e-12, atol=1e-15)


def test_graded_scores_count_in_part_and_returns_only_on_request():
    graded = replace(walk("s x", "failed", reward=7.0), score=0.25)
    assert stateless_discount()(group(graded)).flat_advantages.tolist() == [0.25]
    assert stateless_discount(outcome="return")(group(graded)).flat_advantages.tolist() == [7.0]


def test_a_discount_of_zero_credits_the_last_turn_alone():
    assert stateless_discount(0.0)(RACE).flat_advantages.tolist() == [0.0, 0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("control", CONTROLS)
def test_rollouts_without_turns_and_groups_without_success_get_no_credit(control):
    empty = Trajectory("none", "g", "task", (), False, 0.0, "env_error", "s")
    assert control(Group((empty,))).flat_advantages.size == 0
    failed = Group((*group(walk("s x", "failed"), walk("s a x", "env_limit")).trajectories, empty))
    assert not control(failed).flat_advantages.any()


@pytest.mark.parametrize("control", CONTROLS)
@settings(max_examples=30)
@given(SEEDS)
def test_states_and_actions_change_nothing(control, seed):
    played = random_group(np.random.default_rng(seed))
    members = tuple(
        replace(
            m,
            turns=tuple(
                replace(turn, state_key=f"{t}", action="other", action_key="", next_state_key=f"{t + 1}", text_key="", parsed=True)
                for t, turn in enumerate(m.turns)
            ),
            final_state_key=f"{len(m.turns)}",
        )
        for m in played.trajectories
    )  # fmt: skip
    other = Group(members, played.task)
    np.testing.assert_array_equal(control(played).flat_advantages, control(other).flat_advantages)


@pytest.mark.parametrize("control", CONTROLS)
@settings(max_examples=30)
@given(SEEDS)
def test_a_branch_gets_the_credit_of_its_full_episode(control, seed):
    rng = np.random.default_rng(seed)
    stored, full = random_fork(rng, random_group(rng))
    fork = stored.trajectories[-1].fork_turn
    np.testing.assert_allclose(
        control(stored).advantages[-1], control(full).advantages[-1][fork:], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("name", STATELESS)
def test_a_simulated_group_gets_the_credit_of_its_trajectories(name):
    mdp = grid_mdp(generate_layout("pits", np.random.default_rng(3)), 20)
    uniform = np.full((1, mdp.size, len(mdp.actions)), 1 / len(mdp.actions))
    (simulated,) = simulate(mdp, uniform, 5, np.random.default_rng(4))
    control = played_method(name, mdp.horizon, [0])
    plain = Group(simulated.trajectories)
    np.testing.assert_array_equal(control(simulated).flat_advantages, control(plain).flat_advantages)
    for ours, theirs in zip(
        (simulated.episode_index.stored, simulated.episode_index.own, simulated.episode_index.offsets),
        (plain.episode_index.stored, plain.episode_index.own, plain.episode_index.offsets),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("make", [stateless_discount, position_baseline])
@pytest.mark.parametrize("discount", [-0.1, 1.1, float("nan")])
def test_a_discount_outside_the_unit_interval_is_rejected(make, discount):
    with pytest.raises(ConfigError, match=r"discount must lie in \[0, 1\]"):
        make(discount)


def test_an_unknown_baseline_is_rejected():
    with pytest.raises(ConfigError, match="'none' or 'group'"):
        stateless_discount(baseline="mean")  # type: ignore[arg-type]  # the mistake under test
