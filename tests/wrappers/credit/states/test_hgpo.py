"""HGPO: the worked example in both semantics, histories that begin with their episode, and its edge cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import DENSE, groups
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit.states.hgpo import history_groups
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory


def through(before: str, won: bool, name: str) -> Trajectory:
    """From the start through one state to a last turn at "o"."""
    return walk(f"start {before} o end", "success" if won else "failed", name=name)


# the last turns stand at one state: returns 1, 0, 1, 1; two came through x, two through y
MEETING = group(
    *[
        through(before, won, f"{i}")
        for i, (before, won) in enumerate([("x", True), ("x", False), ("y", True), ("y", True)])
    ]
)


def last_turns(scheme: credit.Scheme, played: Group = MEETING) -> list[float]:
    return [float(advantages[-1]) for advantages in scheme.assign(played).advantages]


def test_the_paper_averages_the_levels_by_weights_1_2_3():
    got = last_turns(credit.make("hgpo"))
    np.testing.assert_allclose(got, [0.9296, -1.1220, 0.0962, 0.0962], atol=6e-5)


def test_the_levels_of_the_worked_example():
    coarse = last_turns(credit.make("hgpo", history_length=0))
    np.testing.assert_allclose(coarse, [0.5773, -1.7320, 0.5773, 0.5773], atol=6e-5)
    finest = last_turns(credit.make("hgpo", history_length=1, weight_exponent=64.0))
    np.testing.assert_allclose(finest, [1.0, -1.0, 0.0, 0.0], atol=1e-9)


def test_the_released_code_hands_a_tie_at_fine_levels_its_coarse_credit_in_full():
    got = last_turns(credit.make("hgpo", semantics="release", key="state"))
    np.testing.assert_allclose(got, [0.9061, -1.1627, 0.5773, 0.5773], atol=6e-5)


def test_a_singleton_level_keeps_its_weight_in_the_paper_and_is_dropped_by_the_released_code():
    # at o: returns 1, 0, z = ±1 at level 0; each came another way, so levels 1 and 2 are singletons
    played = group(through("x", True, "a"), through("y", False, "b"))
    np.testing.assert_allclose(last_turns(credit.make("hgpo"), played), [1 / 6, -1 / 6], rtol=1e-12)
    released = last_turns(credit.make("hgpo", semantics="release", key="state"), played)
    np.testing.assert_allclose(released, [1.0, -1.0], rtol=1e-5)


def test_a_turn_alone_at_every_level_gets_zero_in_both_semantics():
    played = group(walk("s a g"), walk("t b x", "failed"))
    for semantics in ("paper", "release"):
        scheme = credit.make("hgpo", semantics=semantics, key="state", discount=0.9)
        assert not scheme.assign(played).flat_advantages.any()


def test_one_rollout_can_fill_a_group_alone():
    # γ = 1/2: returns 1/2 and 1 at s
    scheme = credit.make("hgpo", discount=0.5, history_length=0)
    np.testing.assert_allclose(scheme.assign(group(walk("s s g"))).flat_advantages, [-1.0, 1.0])


def test_equal_outcomes_at_unequal_distances_are_no_tie_below_discount_one():
    played = group(walk("s a g"), walk("s b c g"))
    assert credit.make("hgpo").assign(played).flat_advantages[0] > 0.0
    assert not credit.make("hgpo", discount=1.0).assign(played).flat_advantages.any()
    assert "trajectories" in credit.check_credit(credit.make("hgpo"), draws=20).counterexamples["stopping_time"]


def test_an_invalid_turn_loses_its_penalty_after_discounting():
    played = group(walk("s s a", "failed", invalid=[1]), walk("s b", "failed"))
    # returns at s: 0, −.1 (not propagated to the turn before), 0
    scheme = credit.make("hgpo", history_length=0, invalid_penalty=0.1)
    expected = np.array([0.1, -0.2, 0.1]) / 3 / (np.sqrt(2) / 30)
    np.testing.assert_allclose(scheme.assign(played).flat_advantages, expected)


@settings(max_examples=60)
@given(g=groups(rewards=DENSE), length=st.integers(0, 4))
def test_histories_begin_with_their_episode_and_levels_are_nested(g, length):
    state, offsets = g.arrays.state, g.arrays.offsets
    levels = list(history_groups(state, offsets, length))
    keys = [list(m) for m in g.arrays.split(state)]
    for k, (labels, size) in enumerate(levels):
        histories = [
            ("begin",) * max(k - t, 0) + tuple(path[max(t - k, 0) : t + 1]) for path in keys for t in range(len(path))
        ]
        assert size == len(set(histories)) == len(set(labels.tolist()))
        assert len(set(zip(histories, labels.tolist(), strict=True))) == size
        if k:
            coarser = levels[k - 1][0]
            assert len(set(zip(coarser.tolist(), labels.tolist(), strict=True))) == size


@settings(max_examples=40)
@given(g=groups(rewards=DENSE))
def test_without_history_the_step_part_of_gigpo_remains(g):
    hgpo = credit.make("hgpo", history_length=0, step_scale="none").assign(g)
    gigpo = credit.make("gigpo", step_scale="none").assign(g)
    np.testing.assert_allclose(hgpo.flat_advantages, gigpo.flat_step_advantages, rtol=1e-12, atol=1e-12)


def test_graded_and_truncated_rollouts_count_with_their_rewards():
    graded = replace(walk("s b", "env_limit", reward=0.5), score=0.5)
    got = credit.make("hgpo").assign(group(walk("s a"), graded, walk("s c", "failed"))).flat_advantages
    np.testing.assert_allclose(got, np.array([0.5, 0.0, -0.5]) / np.sqrt(1 / 6), atol=1e-12)
