"""Each option that repairs a flaw of the released code or the published formula: the flaw, then its absence."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.published_schemes import PUBLISHED, released

from creditflow import credit
from creditflow.wrappers.credit.properties import sample_group


def chain(n, prefix="c"):
    """n states before the goal."""
    return [f"{prefix}{i}" for i in range(n, 0, -1)]


# -- rounding noise becomes credit --------------------------------------------------------------------------------------
# g2po standardises the progress of all edges of the graph, so turns of equal rollouts differ by their place in the path
@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "g2po"])
@pytest.mark.parametrize("semantics", ["paper", "release"])
@pytest.mark.parametrize("discount", [0.1, 0.4, 0.8, 0.95])
def test_equal_trajectories_get_exactly_zero_although_their_sums_are_rounded(name, semantics, discount):
    # 0.1 added ten times is not 1 in floating point: a mean of equal returns differs from them in the last bit
    rollouts = [walk([*chain(10), "g"], rewards=[0.1] * 10, name=f"t{i}") for i in range(7)]
    options = {"gigpo": {"discount": discount}, "rewardflow": {"discount": discount},
               "graphgpo": {"distance_discount": discount}}.get(name, {})  # fmt: skip
    scheme = released(name, **options) if semantics == "release" else credit.make(name, **options)
    assert (scheme.assign(group(*rollouts)).flat_advantages == 0.0).all()


@pytest.mark.parametrize("name", PUBLISHED)
def test_rewards_that_cancel_leave_no_rounding_noise_in_credit(name):
    # 0.5 − 5 · 0.1 is −2.8e-17 in floating point: beside a trajectory without reward this is not a difference
    path = [*chain(6), "x"]
    g = group(walk(path, "failed", rewards=[0.5] + [-0.1] * 5, name="busy"), walk(path, "failed", name="idle"))
    assert g.arrays.returns[0] != 0.0
    c = credit.make(name, outcome="return").assign(g)
    assert (c.outcome_advantages == 0.0).all()
    # these two compare discounted returns from the middle of the episode, which do differ
    assert name in ("gigpo", "hgpo") or (c.flat_advantages == 0.0).all()


def test_returns_that_differ_only_in_the_last_bit_are_equal():
    # 0.1 + 0.2 ≠ 0.3: three trajectories with equal returns from different rewards; rounding noise is not a difference
    x = np.array([0.1 + 0.2, 0.3, 0.3])
    assert len(set(x)) == 2
    assert (credit.normalize(x, np.zeros(3, np.int32), 1) == 0.0).all()


# -- far from the goal, eps swallows the difference ---------------------------------------------------------------------
def two_way_choice(distance):
    """The first state's two actions: towards the goal, or into a dead state, ``distance`` transitions before success."""
    path = [*chain(distance), "g"]
    return group(walk(path, name="on"), walk([path[0], "dead"], "failed", name="off"))


def step_advantage(scheme, g):
    return scheme.assign(g).diagnostics["step_advantage"][0]


def test_graphgpo_released_exponent_loses_far_choices_to_eps():
    # γ = 0.1, dead end 0.1 as good: returns 10·0.1^(d−1) and 10·0.1^(d+1), sample deviation ≈ 7·0.1^d against eps 1e-6
    far = [step_advantage(released("graphgpo"), two_way_choice(d)) for d in (2, 7, 9, 11)]
    assert far[0] == pytest.approx(2**-0.5, rel=1e-4)
    assert far[1] < 0.65
    assert far[2] < 0.05
    assert far[3] < 0.001


@pytest.mark.parametrize("exponent", ["progress", "log"])
@pytest.mark.parametrize("distance", [2, 7, 11, 50, 400])
def test_graphgpo_progress_and_log_keep_far_choices(exponent, distance):
    scheme = released("graphgpo", exponent=exponent)
    assert step_advantage(scheme, two_way_choice(distance)) == pytest.approx(2**-0.5, rel=1e-3)


@pytest.mark.parametrize("distance", [2, 7, 50, 200, 300])
def test_graphgpo_paper_semantics_keeps_far_choices_as_long_as_floats_reach(distance):
    # without eps the deviation is relative; squares of 0.1^200 must not underflow
    assert step_advantage(credit.make("graphgpo"), two_way_choice(distance)) == pytest.approx(2**-0.5)


# -- the penalty for invalid turns swamps the graph's signal ------------------------------------------------------------
def choice_with_an_invalid_turn(distance):
    """At the first state: straight on, a dead end, and one turn that could not be parsed."""
    path = [*chain(distance), "g"]
    return group(
        walk(path, name="on"),
        walk([path[0], "dead"], "failed", name="off"),
        walk([path[0], path[0]], "env_limit", invalid=[0], name="junk"),
    )


def gap(scheme, g):
    """Difference of the step advantages of the good and the bad valid turn of the first state."""
    step = scheme.assign(g).diagnostics["step_advantage"]
    last = len(g.trajectories[0].turns)
    return step[0] - step[last]


def test_graphgpo_penalty_in_the_score_swamps_far_choices():
    # returns ≈ (10·0.1^(d−1), 0, −0.1): for d = 6 the deviation is the penalty's, 0.1/√3, the gap 1e-4·√3/0.1
    assert gap(released("graphgpo"), choice_with_an_invalid_turn(3)) > 0.5
    assert gap(released("graphgpo"), choice_with_an_invalid_turn(6)) == pytest.approx(1e-3 * 3**0.5, rel=0.05)


UNSCALED = {"outcome_scale", "step_scale"}


@pytest.mark.parametrize("name", ["grpo", "gigpo", "graphgpo"])
def test_a_penalty_in_the_score_gives_positive_credit_to_valid_turns_of_failed_groups(name):
    g = group(*[walk([f"{i}.{t}" for t in range(9)], "failed", name=f"t{i}", invalid=[0] * (i == 0)) for i in range(4)])
    scheme = released(name, **({"outcome_scale": "std"} if name == "gigpo" else {}))
    flawed = scheme.assign(g).flat_advantages
    assert (flawed[1:] > 0.1).all()  # valid turns get positive credit
    assert flawed[0] < -5.0  # and the rarer the invalid turn, the larger its penalty
    repaired = released(name, **dict.fromkeys(UNSCALED & {*credit.registry.lookup(name).preset("paper")}, "none"))
    assert np.abs(repaired.assign(g).flat_advantages).max() < 0.25


PENALISED = [name for name in credit.names(given=()) if hasattr(credit.make(name), "invalid_penalty")]
ANNOTATED = [
    name
    for name in credit.names()
    if name not in credit.names(given=()) and hasattr(credit.make(name), "invalid_penalty")
]


# whitening centres each batch
@pytest.mark.parametrize("name", [name for name in ANNOTATED if not hasattr(credit.make(name), "whitening")])
def test_a_penalty_lowers_the_credit_of_invalid_turns_of_annotated_groups(name):
    for seed in range(20):
        g = sample_group(credit.make(name), np.random.default_rng(seed))
        invalid = ~g.arrays.valid
        if credit.make(name).undefined_on(g) or invalid.all() or not invalid.any():
            continue
        plain, score = (credit.make(name, invalid_penalty=rho).assign(g).flat_advantages for rho in (0.0, 0.25))
        assert (score - plain)[invalid].mean() < -0.1


@pytest.mark.parametrize("name", PENALISED)
def test_a_penalty_in_the_score_lowers_the_credit_of_an_invalid_turn(name):
    g = choice_with_an_invalid_turn(3)
    plain, penalised = (credit.make(name, invalid_penalty=rho).assign(g).flat_advantages for rho in (0.0, 0.25))
    assert ((penalised - plain)[~g.arrays.parsed] < -0.1).all()


# -- statistics weighted by length --------------------------------------------------------------------------------------
def unequal_lengths():
    wins = [walk([f"w{i}.{t}" for t in range(11)], reward=10.0, name=f"w{i}") for i in range(4)]
    losses = [walk([f"l{i}.{t}" for t in range(51)], "failed", name=f"l{i}") for i in range(4)]
    return group(*wins, *losses)


def test_statistics_over_turns_give_long_failures_more_weight():
    outcome = released("grpo").assign(unequal_lengths()).outcome_advantages
    assert outcome[0] + outcome[-1] > 1.5  # +2.23 against −0.45


def test_statistics_over_trajectories_weigh_every_trajectory_equally():
    outcome = released("grpo", stats_over="trajectories").assign(unequal_lengths()).outcome_advantages
    np.testing.assert_allclose(outcome, [outcome[0]] * 4 + [-outcome[0]] * 4, rtol=1e-12)


@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_a_penalty_in_a_group_of_equal_outcomes_is_subtracted_unscaled(eps):
    # outcomes 0, 0: no deviation. −0.1 / (0 + 1e-6) would be −100000, −0.1 "over nothing" would be 0
    g = group(walk("s a", "failed", invalid=[0]), walk("s b", "failed"))
    c = credit.make("grpo", stats_over="trajectories", std_eps=eps, invalid_penalty=0.1).assign(g)
    np.testing.assert_allclose(c.flat_advantages, [-0.1, 0.0], atol=1e-12)


# -- success is not "the return is positive" ----------------------------------------------------------------------------
def dense_failure():
    """Two boxes of three on their targets: a return of +0.5, no success. And a true success."""
    return group(walk("s a x", "failed", rewards=[0.0, 0.5]), walk("s b g", rewards=[0.0, 1.0]))


def test_released_graphgpo_makes_failures_with_positive_return_goals():
    c = released("graphgpo").assign(dense_failure())
    assert c.flat_step_rewards[0] == c.flat_step_rewards[2]


def test_typed_terminals_make_successes_goals():
    c = released("graphgpo", terminals="typed").assign(dense_failure())
    assert c.flat_step_rewards[0] < c.flat_step_rewards[2]


# -- dead states ----------------------------------------------------------------------------------------------------------
def test_far_plus_one_scores_dead_states_by_the_farthest_state_of_the_group():
    # with one more trajectory from far away the same dead state scores 0.1^3 instead of 0.1^2
    near_only = group(walk("s g"), walk("s x", "failed"))
    with_far = group(*near_only.trajectories, walk("f1 s g"))
    dead = [credit.make("graphgpo").assign(g).step_rewards[1][0] for g in (near_only, with_far)]
    np.testing.assert_allclose(dead, [10 * 0.1**3, 10 * 0.1**4])


def test_with_unequal_costs_far_plus_one_prefers_a_dead_state_to_an_expensive_success():
    # d(b) = 1, d(a) = 2 = d_max: a→x counts 2 + 1 + 1 = 4, a→g at its cost of 20
    cheap = walk("a b g", costs=[1.0, 1.0], name="cheap")
    costly = walk("a g", costs=[20.0], name="costly")
    dead = walk("a x", "failed", name="dead")
    paper = credit.make("graphgpo", distance_discount=0.5).assign(group(cheap, costly, dead)).step_rewards
    assert paper[2][0] > paper[1][0]


# -- similarity ---------------------------------------------------------------------------------------------------------
def nearly_equal_pages():
    page = "page with results {} and a long common text that makes the two nearly equal"
    return group(walk(["s", page.format(1), "g"], name="won"), walk(["s", page.format(2), "x"], "failed", name="lost"))


def test_similarity_merges_nodes_but_not_the_compared_states():
    c = released("graphgpo", similarity=0.9).assign(nearly_equal_pages())
    assert c.flat_step_rewards[0] == c.flat_step_rewards[2]  # both lead to the merged page
    assert c.diagnostics["step_advantage"][[1, 3]].tolist() == [0.0, 0.0]  # whose turns are not compared
