"""RewardFlow on examples small enough to work out by hand; every expected number is derived beside it."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from helpers.episodes.builders import group, walk
from helpers.episodes.worked import HALF, ONE_OF_THREE, near

from creditflow import credit


def rewardflow(*trajectories, **options):
    return credit.make("rewardflow", discount=0.5, **options).assign(group(*trajectories))


def test_rewardflow_rewards_are_the_change_of_a_potential_that_halves_with_every_hop():
    # γ = 1/2: R(g) = 1, R(a) = 1/2, R(s) = 1/4, dead ends b and x: 0
    c = rewardflow(walk("s a g"), walk("s b x", "failed"), walk("s b", "env_limit"))
    near(c.step_rewards, [[1 / 4, 1 / 2], [-1 / 4, 0], [-1 / 4]])
    # at s {1/4, −1/4, −1/4}; a and b were left once
    near(c.step_advantages, [[ONE_OF_THREE[0], 0], [ONE_OF_THREE[1], 0], [ONE_OF_THREE[2]]])
    near(c.advantages, [[4 / sqrt(3), 2 / sqrt(3)], [-2 / sqrt(3), -1 / sqrt(3)], [-2 / sqrt(3)]])


def test_rewardflow_a_truncated_trajectory_ends_in_the_open_state_it_reached():
    # the truncated rollout contains the edge b→a: R(b) = 1/4 = R(s)
    c = rewardflow(walk("s a g"), walk("s b a", "env_limit"))
    near(c.step_rewards, [[1 / 4, 1 / 2], [0, 1 / 4]])


def test_rewardflow_a_failure_is_not_the_open_state_of_the_same_key():
    # a failure at a is not the open state a: b stays a dead state
    c = rewardflow(walk("s a g"), walk("s b a", "failed"))
    near(c.step_rewards, [[1 / 4, 1 / 2], [-1 / 4, 0]])


def test_rewardflow_success_and_failure_with_the_same_key_stay_separate():
    # both end in "": the success has potential 1, the failure 0
    c = rewardflow(walk(["s", "a", ""]), walk(["s", "b", ""], "failed"))
    near(c.step_rewards, [[1 / 4, 1 / 2], [-1 / 4, 0]])


def test_rewardflow_an_open_state_with_the_key_of_a_goal_is_not_a_goal():
    # an action was taken in "g" and failed: that open g has potential 0
    c = rewardflow(walk("s g"), walk("s g x", "failed"))
    near(c.step_rewards, [[1 / 2], [-1 / 2, 0]])


def test_rewardflow_a_success_that_leaves_the_key_unchanged_is_still_a_transition():
    # the last action answers the question; R(s) = 1/4, R(a) = 1/2
    c = rewardflow(walk("s a a"), walk("s b", "failed"))
    near(c.step_rewards, [[1 / 4, 1 / 2], [-1 / 4]])


def test_rewardflow_invalid_transitions_are_not_shortcuts():
    # s→b was rejected by the rules: d(s) stays 3, R(s) = 1/8, R(b) = 1/2; the turn itself still gets the difference
    c = rewardflow(walk("s a b g"), walk("s b", "env_limit", invalid=[0]))
    near(c.step_rewards, [[1 / 8, 1 / 4, 1 / 2], [3 / 8]])


def test_rewardflow_turns_that_change_nothing_are_pruned():
    c = rewardflow(walk("s s a g"))
    near(c.step_rewards, [[0, 1 / 4, 1 / 2]])
    assert c.diagnostics["pruned"].tolist() == [True, False, False]


def test_rewardflow_takes_the_nearest_of_several_successes():
    # from b: 1 hop to h, although a's path to g is observed too
    c = rewardflow(walk("s b a g"), walk("t b h"))
    near(c.step_rewards, [[1 / 4, 0, 1 / 2], [1 / 4, 1 / 2]])


def test_rewardflow_weights_scale_its_two_parts():
    c = rewardflow(walk("s a g"), walk("s b x", "failed"), action_weight=3.0, trajectory_weight=0.5)
    near(c.outcome_advantages, [HALF / 2, -HALF / 2])
    near(c.step_advantages, [[3 * HALF, 0], [-3 * HALF, 0]])


def test_rewardflow_group_without_success_gets_exactly_zero_credit():
    assert (rewardflow(walk("s a x", "failed"), walk("s b", "env_limit")).flat_advantages == 0.0).all()


def test_rewardflow_without_pruning_an_error_message_is_a_state_on_the_way():
    # the invalid turn leads to a state "error" of its own, from which the rollout goes on to a success:
    # R(a) = 1/2, R(error) = 1/4, R(s) = 1/2 · R(a) with the direct rollout, so s → error changes nothing
    detour, direct = walk("s error a g"), walk("s a g")
    invalid = replace(detour.turns[0], admissible=False)
    detour = replace(detour, turns=(invalid, *detour.turns[1:]))
    near(rewardflow(detour, direct, pruning="none").step_rewards, [[0, 1 / 4, 1 / 2], [1 / 4, 1 / 2]])
    assert rewardflow(detour, direct, pruning="none").diagnostics["pruned"].sum() == 0
    assert rewardflow(detour, direct).diagnostics["pruned"].tolist() == [True, False, False, False, False]
