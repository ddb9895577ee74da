"""RTMC: the worked example, its credit for groups of successes, the repairs of it, and its edge cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import DENSE, groups
from hypothesis import given, settings

from creditflow import credit
from creditflow.envs.errors import ConfigError

quick = settings(max_examples=40)


def rtmc(**options: Any) -> credit.Scheme:
    return credit.make("rtmc", **options)


TREE = group(
    walk("s x end", actions=["a", "go"], name="won"),
    walk("s y end", "failed", actions=["a", "go"], name="y"),
    walk("s z end", "failed", actions=["b", "go"], name="z"),
    walk("s w end", "failed", actions=["b", "go"], name="w"),
)
TWO_WINS = group(walk("s x end", name="one"), walk("s x end", name="two"))


def test_the_worked_example():
    scored = rtmc().assign(TREE)
    assert scored.diagnostics["prior"] == 0.25
    first, second = ([float(row[t]) for row in scored.advantages] for t in (0, 1))
    np.testing.assert_allclose(first, [0.2467, 0.2467, -0.2483, -0.2483], atol=5e-5)
    np.testing.assert_allclose(second, [0.5, -0.1667, -0.1667, -0.1667], atol=5e-5)


def test_a_group_of_successes_alone_is_not_zero():
    # Q = .99 at the start against (2 · .99 + 2 · 1) / 4
    scored = rtmc().assign(TWO_WINS)
    np.testing.assert_allclose(scored.flat_advantages, [-0.005, 0.0] * 2, atol=1e-12)


def test_the_credit_of_wins_of_unequal_length_stays_below_zero():
    # start: counted .99^0, .99^2, by different actions: V' = (1 + .9801 + 2) / 4
    scored = rtmc().assign(group(walk("s g"), walk("s a b g")))
    value = (1 + 0.99**2 + 2) / 4
    np.testing.assert_allclose(scored.advantages[0], [1 - value])
    np.testing.assert_allclose(scored.advantages[1], [0.99**2 - value, (0.99 - 1) * 2 / 3, 0.0], atol=1e-12)


def test_the_prior_can_be_discounted():
    # the prior is .995, the mean of .99, 1, .99, 1: the sum over turns is 0
    discounted = rtmc(prior="return").assign(TWO_WINS).flat_advantages
    np.testing.assert_allclose(discounted, [-0.0025, 0.0025] * 2, atol=1e-12)


def test_check_credit_finds_what_is_not_declared():
    report = credit.check_credit(rtmc(), draws=20)
    for name in ("ties_zero", "stopping_time"):
        assert name not in report.declared
        assert "trajectories" in report.counterexamples[name]


@quick
@given(g=groups(rewards=DENSE, ends=("failed", "env_limit", "format")))
def test_a_group_without_success_gets_exactly_zero(g):
    assert not rtmc().assign(g).flat_advantages.any()


def test_a_pair_visited_once_gets_two_thirds_of_its_distance_from_the_prior():
    scored = rtmc().assign(group(walk("s a g"), walk("t b x", "failed")))
    np.testing.assert_allclose(scored.flat_advantages, np.array([0.49, 0.5, -0.5, -0.5]) * 2 / 3)
    alone = rtmc().assign(group(walk("s a g")))
    np.testing.assert_allclose(alone.flat_advantages, [-0.01 * 2 / 3, 0.0], atol=1e-12)


def test_the_first_visit_of_a_pair_in_a_rollout_counts_and_all_its_visits_get_the_credit():
    # (s, a) twice in the first rollout: its return at the first visit is .81, at the second .9
    played = group(walk("s s g", actions=["a", "a"], name="won"), walk("s x", "failed", actions=["b"], name="lost"))
    scored = rtmc(discount=0.9).assign(played)
    value = (0.9 + 0.0 + 2 * 0.5) / 4
    np.testing.assert_allclose(scored.flat_advantages, [0.9 - value, 0.9 - value, -value])


def test_without_prior_a_pair_visited_once_is_silent():
    assert not rtmc(prior_weight=0.0).assign(group(walk("s a g"), walk("t b x", "failed"))).flat_advantages.any()
    assert rtmc(prior_weight=0.0).assign(TREE).flat_advantages.any()


def test_with_a_huge_prior_and_no_discount_the_mean_outcome_is_the_baseline():
    scored = rtmc(prior_weight=1e9, discount=1.0).assign(TREE)
    np.testing.assert_allclose([row[1] for row in scored.advantages], [0.75, -0.25, -0.25, -0.25], atol=1e-6)


def test_graded_scores_count_in_part_and_a_cut_off_rollout_with_what_it_has():
    graded = replace(walk("s b", "env_limit"), score=0.5)
    scored = rtmc().assign(group(walk("s a", actions=["win"]), graded))
    value = (1 + 0.5 + 2 * 0.75) / 4
    np.testing.assert_allclose(scored.flat_advantages, [1 - value, 0.5 - value])


@quick
@given(g=groups(rewards=DENSE))
def test_text_keys_that_distinguish_the_same_states_give_the_same_credit(g):
    assert rtmc(key="text").assign(g).flat_advantages.tolist() == rtmc().assign(g).flat_advantages.tolist()


@pytest.mark.parametrize("options", [{"discount": -0.1}, {"prior_weight": -1.0}])
def test_options_out_of_range_are_rejected_by_name(options):
    with pytest.raises(ConfigError, match=rf"rtmc\.{next(iter(options))} must lie in"):
        rtmc(**options)
