"""Paper semantics on examples small enough to work out by hand; every expected number is derived beside it.

Three samples {x, y, y} recur: mean y + (x−y)/3, deviations 2/3, −1/3, −1/3 of (x−y), sum of squares 2/3, sample
variance 1/3, so the normalised values are 2/√3, −1/√3, −1/√3 whatever x > y. Two samples give ±1/√2.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit

ONE_OF_THREE = [2 / sqrt(3), -1 / sqrt(3), -1 / sqrt(3)]
HALF = 1 / sqrt(2)


def near(got, expected):
    flat = [x for row in got for x in np.atleast_1d(row)]
    wanted = [x for row in expected for x in np.atleast_1d(row)]
    assert [len(np.atleast_1d(row)) for row in got] == [len(np.atleast_1d(row)) for row in expected]
    np.testing.assert_allclose(flat, wanted, rtol=1e-12, atol=1e-12)


# -- outcome schemes ----------------------------------------------------------------------------------------------------
def test_grpo_is_the_return_in_sample_deviations_from_the_mean():
    # returns 3, 1, 2: mean 2, sample variance (1 + 1 + 0)/2 = 1
    g = group(
        walk("s a", "failed", reward=3.0), walk("s a b c", "failed", reward=1.0), walk("s x", "failed", reward=2.0)
    )
    c = credit.make("grpo").assign(g)
    near(c.outcome_advantages, [1.0, -1.0, 0.0])
    near(c.advantages, [[1.0], [-1.0, -1.0, -1.0], [0.0]])
    near(c.step_rewards, [[0.0], [0.0] * 3, [0.0]])


def test_grpo_weighs_trajectories_equally_and_the_released_code_weighs_turns():
    # four successes of 10 turns, four failures of 50, rewards 10/0
    g = group(
        *[walk([f"{i}.{t}" for t in range(11)], reward=10.0, name=f"w{i}") for i in range(4)],
        *[walk([f"{i}.{t}" for t in range(51)], "failed", name=f"l{i}") for i in range(4, 8)],
    )
    # mean 5, sample variance 8·25/7
    near(credit.make("grpo").assign(g).outcome_advantages, [5 / sqrt(200 / 7)] * 4 + [-5 / sqrt(200 / 7)] * 4)
    # rows: 40 tens, 200 zeros; mean 5/3; sum of squares 40 (25/3)² + 200 (5/3)²
    deviation = sqrt((40 * (25 / 3) ** 2 + 200 * (5 / 3) ** 2) / 239)
    released = credit.make("grpo", semantics="release").assign(g).outcome_advantages
    np.testing.assert_allclose(released, [25 / 3 / deviation] * 4 + [-5 / 3 / deviation] * 4, rtol=1e-6)
    np.testing.assert_allclose(released[[0, -1]], [2.23, -0.446], rtol=1e-2)


def test_grpo_without_std_is_the_distance_from_the_mean():
    g = group(walk("s g", reward=1.0), walk("s x", "failed"), walk("s x", "failed"))
    near(credit.make("grpo", outcome_scale="none").assign(g).outcome_advantages, [2 / 3, -1 / 3, -1 / 3])


def test_rloo_is_the_return_less_the_mean_of_the_others():
    # returns 3, 1, 2: 3 − 3/2, 1 − 5/2, 2 − 2
    g = group(*[walk("s a", "failed", reward=r, name=str(r)) for r in (3.0, 1.0, 2.0)])
    near(credit.make("rloo").assign(g).outcome_advantages, [3 / 2, -3 / 2, 0.0])


def test_outcome_can_be_success_or_score_instead_of_the_return():
    g = group(walk("s g", reward=7.0), walk("s x", "failed", reward=9.0))
    for outcome in ("success", "score"):
        near(credit.make("rloo", outcome=outcome).assign(g).outcome_advantages, [1.0, -1.0])
    near(credit.make("rloo").assign(g).outcome_advantages, [-2.0, 2.0])


# -- gigpo --------------------------------------------------------------------------------------------------------------
FORK = (walk("s a g"), walk("s b x", "failed"), walk("s a y", "failed"))


def test_gigpo_compares_discounted_returns_of_turns_at_the_same_state():
    # γ = 1/2: returns (1/2, 1), (0, 0), (0, 0); at s {1/2, 0, 0}; at a {1, 0}; b was visited once
    c = credit.make("gigpo", discount=0.5).assign(group(*FORK))
    near(c.step_rewards, [[1 / 2, 1], [0, 0], [0, 0]])
    near(c.outcome_advantages, ONE_OF_THREE)
    near(c.step_advantages, [[ONE_OF_THREE[0], HALF], [ONE_OF_THREE[1], 0], [ONE_OF_THREE[2], -HALF]])
    near(c.advantages, [[4 / sqrt(3), 2 / sqrt(3) + HALF], [-2 / sqrt(3), -1 / sqrt(3)],
                        [-2 / sqrt(3), -1 / sqrt(3) - HALF]])  # fmt: skip


def test_gigpo_without_std_keeps_the_size_of_the_difference():
    # at s: mean 1/6; at a: mean 1/2
    c = credit.make("gigpo", discount=0.5, step_scale="none").assign(group(*FORK))
    near(c.step_advantages, [[1 / 3, 1 / 2], [-1 / 6, 0], [-1 / 6, -1 / 2]])


def test_gigpo_counts_every_visit_to_a_state_also_within_one_trajectory():
    # γ = 1/2, one rollout s s g: returns (1/2, 1), both at s: mean 3/4
    c = credit.make("gigpo", discount=0.5, step_scale="none", step_weight=2.0).assign(group(walk("s s g")))
    near(c.step_advantages, [[-1 / 2, 1 / 2]])


def test_gigpo_discounts_intermediate_rewards():
    # γ = 1/2, rewards 4, −2, 8: 8; −2 + 4; 4 + 1
    c = credit.make("gigpo", discount=0.5).assign(group(walk("s a b c", "failed", rewards=[4.0, -2.0, 8.0])))
    near(c.step_rewards, [[5, 2, 8]])


# -- graphgpo -----------------------------------------------------------------------------------------------------------
MAZE = (walk("s a g"), walk("s b x", "failed"), walk("s b a", "env_limit"))


def test_graphgpo_rewards_fall_with_the_distance_to_success_over_all_transitions_of_the_group():
    # d: g 0, a 1, s 2, b 2 (b→a was seen in the third rollout, which joins the open state a), x unreachable: 2 + 1
    c = credit.make("graphgpo", distance_discount=0.1).assign(group(*MAZE))
    distance = dict(zip(c.diagnostics["node_keys"], c.diagnostics["distance"], strict=True))
    assert distance == {"g": 0, "a": 1, "s": 2, "b": 2, "x": np.inf}
    # r = 10 · 0.1^(d(s′) + 1)
    near(c.step_rewards, [[0.1, 1.0], [0.01, 0.001], [0.01, 0.1]])
    # at s {.1, .01, .01}; at b {.001, .1}; a was left once
    near(c.step_advantages, [[ONE_OF_THREE[0], 0], [ONE_OF_THREE[1], -HALF], [ONE_OF_THREE[2], HALF]])
    near(c.outcome_advantages, ONE_OF_THREE)


def test_graphgpo_counts_the_cost_of_the_transition_and_of_the_path_after_it():
    # fly costs 5; walking costs 1 + 2: d(a) = 2, d(s) = 3
    g = group(walk("s g", costs=[5.0], name="fly"), walk("s a g", costs=[1.0, 2.0], name="walk"))
    c = credit.make("graphgpo", distance_discount=0.5, success_reward=1.0).assign(g)
    near(c.step_rewards, [[2.0**-5], [2.0**-3, 2.0**-2]])
    near(c.step_advantages, [[-HALF], [HALF, 0.0]])
    # the released exponent leaves out the cost of the transition itself: r = γ^0 against γ^2, the expensive path wins
    released = credit.make("graphgpo", distance_discount=0.5, success_reward=1.0, exponent="next").assign(g)
    near(released.step_advantages, [[HALF], [-HALF, 0.0]])


def test_graphgpo_dead_states_lie_one_beyond_the_farthest_state():
    # distances 2.5 (s), 0.5 (a); the dead end x counts 3.5, plus the cost 1 of entering it
    g = group(walk("s a g", costs=[2.0, 0.5]), walk("s x", "failed"))
    c = credit.make("graphgpo", distance_discount=0.25, success_reward=1.0).assign(g)
    near(c.step_rewards, [[0.25**2.5, 0.25**0.5], [0.25**4.5]])


def test_graphgpo_gives_zero_to_a_state_left_once_but_compares_repeats_of_one_edge():
    # s is left three times, twice by the same edge: all traversals count; a and b once each in different states
    g = group(walk("s a g"), walk("s b x", "failed"), walk("s b y", "failed"))
    c = credit.make("graphgpo").assign(g)
    near(c.step_advantages, [[ONE_OF_THREE[0], 0], [ONE_OF_THREE[1], 0], [ONE_OF_THREE[2], 0]])


def test_graphgpo_group_without_success_gets_exactly_zero_credit():
    g = group(walk("s a x", "failed", costs=[1.0, 3.0]), walk("s b", "env_limit"), walk("s a", "env_limit"))
    c = credit.make("graphgpo").assign(g)
    assert (c.flat_advantages == 0.0).all()


def test_graphgpo_without_step_std_keeps_the_size():
    # at s {.1, .01, .01}: mean .04; at b {.001, .1}: mean .0505
    c = credit.make("graphgpo", step_scale="none", episode_weight=0.0).assign(group(*MAZE))
    near(c.advantages, [[0.06, 0], [-0.03, -0.0495], [-0.03, 0.0495]])


# -- rewardflow ---------------------------------------------------------------------------------------------------------
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


# grouptd compares a rollout with its prior, rtmc its discounted returns with an undiscounted one
@pytest.mark.parametrize("name", [name for name in credit.names(given=()) if name not in ("grouptd", "rtmc")])
def test_a_singleton_group_gets_zero_credit_from_states_visited_once(name):
    assert (credit.make(name).assign(group(walk("s a g"))).flat_advantages == 0.0).all()
