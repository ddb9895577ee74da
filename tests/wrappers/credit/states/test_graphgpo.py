"""GraphGPO on examples small enough to work out by hand; every expected number is derived beside it."""

from __future__ import annotations

import numpy as np
from helpers.episodes.builders import group, walk
from helpers.episodes.worked import HALF, ONE_OF_THREE, near

from creditflow import credit

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


def test_the_reward_of_an_action_does_not_depend_on_what_follows_it_where_gigpos_return_does():
    # proposition 4.2: s → a lies on a success and a failure; its returns are γ² and 0, its reward is one number
    played = group(walk("s a b g"), walk("s a x", "failed"))
    (first, *_), (second, *_) = credit.make("graphgpo").assign(played).step_rewards
    assert first == second
    (first, *_), (second, *_) = credit.make("gigpo").assign(played).step_rewards
    near([[first], [second]], [[0.95**2], [0.0]])


def test_a_scheme_whose_step_rewards_are_noisier_than_returns_fails_proposition_4_2():
    report = credit.check_credit(credit.make("graphgpo"), draws=20)
    assert "conditional_variance" in report.declared
    assert not credit.check_credit(credit.make("beacon"), draws=20).holds("conditional_variance")
