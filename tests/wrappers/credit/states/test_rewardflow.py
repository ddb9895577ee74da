"""RewardFlow by hand: its potentials, and the released propagation with the options that repair its flaws."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import networkx as nx
import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.published_schemes import released
from helpers.episodes.strategies import COSTS, DENSE, groups, permuted
from helpers.episodes.worked import HALF, ONE_OF_THREE, near
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.states.rewardflow import _propagated, success_potential
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.trajectory import FAILED, GOAL, Group


def rewardflow(*trajectories, **options):
    return credit.make("rewardflow", discount=0.5, **options).assign(group(*trajectories))


def test_rewardflow_rewards_are_the_change_of_a_potential_that_halves_with_every_hop():
    # γ = 1/2: R(g) = 1, R(a) = 1/2, R(s) = 1/4, dead ends b and x: 0
    c = rewardflow(walk("s a g"), walk("s b x", "failed"), walk("s b", "env_limit"))
    near(c.step_rewards, [[1 / 4, 1 / 2], [-1 / 4, 0], [-1 / 4]])
    # at s {1/4, −1/4, −1/4}; a and b were left once
    near(c.step_advantages, [[ONE_OF_THREE[0], 0], [ONE_OF_THREE[1], 0], [ONE_OF_THREE[2]]])
    near(c.advantages, [[4 / sqrt(3), 2 / sqrt(3)], [-2 / sqrt(3), -1 / sqrt(3)], [-2 / sqrt(3)]])


WORKED = {
    # the truncated rollout contains the edge b→a: R(b) = 1/4 = R(s)
    "truncation ends in an open state": ([walk("s a g"), walk("s b a", "env_limit")], [[1 / 4, 1 / 2], [0, 1 / 4]]),
    # a failure at a is not the open state a: b stays a dead state
    "failure is not the open state": ([walk("s a g"), walk("s b a", "failed")], [[1 / 4, 1 / 2], [-1 / 4, 0]]),
    # both end in "": the success has potential 1, the failure 0
    "ends with one key are apart": (
        [walk(["s", "a", ""]), walk(["s", "b", ""], "failed")],
        [[1 / 4, 1 / 2], [-1 / 4, 0]],
    ),
    # an action was taken in "g" and failed: that open g has potential 0
    "open state is no goal": ([walk("s g"), walk("s g x", "failed")], [[1 / 2], [-1 / 2, 0]]),
    # the last action answers the question; R(s) = 1/4, R(a) = 1/2
    "success may keep the key": ([walk("s a a"), walk("s b", "failed")], [[1 / 4, 1 / 2], [-1 / 4]]),
    # s→b was rejected by the rules: d(s) stays 3, R(s) = 1/8, R(b) = 1/2; the turn itself still gets the difference
    "invalid is no shortcut": (
        [walk("s a b g"), walk("s b", "env_limit", invalid=[0])],
        [[1 / 8, 1 / 4, 1 / 2], [3 / 8]],
    ),
    # from b: 1 hop to h, although a's path to g is observed too
    "nearest of two successes": ([walk("s b a g"), walk("t b h")], [[1 / 4, 0, 1 / 2], [1 / 4, 1 / 2]]),
}


@pytest.mark.parametrize("case", WORKED)
def test_rewardflow_worked_examples(case):
    trajectories, rewards = WORKED[case]
    near(rewardflow(*trajectories).step_rewards, rewards)


def test_rewardflow_turns_that_change_nothing_are_pruned():
    c = rewardflow(walk("s s a g"))
    near(c.step_rewards, [[0, 1 / 4, 1 / 2]])
    assert c.diagnostics["pruned"].tolist() == [True, False, False]


def test_rewardflow_weights_scale_its_two_parts():
    c = rewardflow(walk("s a g"), walk("s b x", "failed"), action_weight=3.0, trajectory_weight=0.5)
    near(c.outcome_advantages, [HALF / 2, -HALF / 2])
    near(c.step_advantages, [[3 * HALF, 0], [-3 * HALF, 0]])


def test_rewardflow_without_pruning_an_error_message_is_a_state_on_the_way():
    # the invalid turn leads to a state "error" of its own, from which the rollout goes on to a success:
    # R(a) = 1/2, R(error) = 1/4, R(s) = 1/2 · R(a) with the direct rollout, so s → error changes nothing
    detour, direct = walk("s error a g"), walk("s a g")
    invalid = replace(detour.turns[0], admissible=False)
    detour = replace(detour, turns=(invalid, *detour.turns[1:]))
    near(rewardflow(detour, direct, pruning="none").step_rewards, [[0, 1 / 4, 1 / 2], [1 / 4, 1 / 2]])
    assert rewardflow(detour, direct, pruning="none").diagnostics["pruned"].sum() == 0
    assert rewardflow(detour, direct).diagnostics["pruned"].tolist() == [True, False, False, False, False]


OTHERS = ("mean_hops", "graph_network")
discounts = st.sampled_from([0.0, 1e-310, 0.1, 0.5, 0.9, 1.0])
TWO_GOALS = (walk("s b a g"), walk("t b h"))


def rewards(propagation, *trajectories):
    c = credit.make("rewardflow", discount=0.5, propagation=propagation).assign(group(*trajectories))
    return [row.tolist() for row in c.step_rewards]


def test_the_mean_distance_averages_the_shortest_distances_to_all_successes():
    # b: 2 to g, 1 to h; s and t: 3 and 2; a reaches g alone, at 1
    b, s = 0.5**1.5, 0.5**2.5
    assert rewards("mean_hops", *TWO_GOALS) == [pytest.approx([b - s, 0.5 - b, 0.5]), pytest.approx([b - s, 1 - b])]


def test_the_network_averages_over_the_edges_that_leave_a_state():
    # R(a) = 1/2, R(b) = 1/2 · (1/2 + 1)/2 = 3/8, R(s) = R(t) = 3/16
    assert rewards("graph_network", *TWO_GOALS) == [
        pytest.approx([3 / 16, 1 / 8, 1 / 2]),
        pytest.approx([3 / 16, 5 / 8]),
    ]


@pytest.mark.parametrize("propagation", OTHERS)
def test_a_group_without_success_gets_exactly_zero_credit(propagation):
    g = group(walk("s a x", "failed"), walk("s a s b", "env_limit"))
    assert (credit.make("rewardflow", propagation=propagation).assign(g).flat_advantages == 0.0).all()


@pytest.mark.parametrize("propagation", OTHERS)
def test_the_rule_for_alfworld_is_refused(propagation):
    with pytest.raises(ConfigError, match="released propagation only"):
        credit.make("rewardflow", propagation=propagation, pruning="alfworld", key="text")


@settings(max_examples=60)
@given(g=groups(min_size=1, rewards=DENSE, costs=COSTS), discount=discounts)
def test_the_mean_distance_is_that_of_networkx_over_reachable_successes(g, discount):
    graph = StateGraph.from_group(g)
    plain = nx.DiGraph(graph.to_networkx())
    expected = np.zeros(graph.size)
    lengths = dict(nx.all_pairs_shortest_path_length(plain))
    for node in range(graph.size):
        hops = [lengths[node][goal] for goal in graph.goals.tolist() if goal in lengths[node]]
        expected[node] = discount ** np.mean(hops) if hops else 0.0
    np.testing.assert_allclose(success_potential(graph, discount, "mean_hops"), expected, rtol=1e-12)


@settings(max_examples=60)
@given(g=groups(min_size=1, rewards=DENSE, costs=COSTS), discount=discounts)
def test_the_network_is_a_fixed_point_between_zero_and_the_nearest_success(g, discount):
    graph = StateGraph.from_group(g)
    value = success_potential(graph, discount, "graph_network")
    nearest = success_potential(graph, discount, "success_hops")
    edges = graph.edges
    assert (value[graph.goals] == 1.0).all()
    assert ((value > 0.0) | (discount < 1e-300) | (nearest == 0.0)).all()
    assert ((value >= 0.0) & (value <= nearest + 1e-12)).all()
    assert (value[nearest == 0.0] == 0.0).all()
    for node in set(edges.source.tolist()):
        around = value[edges.target[edges.source == node]]
        if nearest[node] > 0.0:
            assert value[node] == pytest.approx(discount * around.mean(), rel=1e-9, abs=1e-12)


@settings(max_examples=60)
@given(g=groups(min_size=1, rewards=DENSE, costs=COSTS), discount=st.sampled_from([0.3, 0.9]))
def test_the_mean_distance_is_never_above_the_nearest_success_and_equals_it_where_there_is_one(g, discount):
    graph = StateGraph.from_group(g)
    nearest, mean = (success_potential(graph, discount, name) for name in ("success_hops", "mean_hops"))
    assert (mean <= nearest + 1e-12).all()
    assert ((mean > 0.0) == (nearest > 0.0)).all()
    if len(graph.goals) < 2:
        assert mean.tolist() == nearest.tolist()


@pytest.mark.parametrize("propagation", OTHERS)
@settings(max_examples=30)
@given(g=groups(rewards=DENSE), seed=st.integers(0, 99))
def test_shaping_telescopes_and_the_order_of_trajectories_does_not_matter(propagation, g, seed):
    scheme = credit.make("rewardflow", propagation=propagation)
    c = scheme.assign(g)
    sums: dict[tuple[str, int], float] = {}
    for m, of_turns in zip(g.trajectories, c.step_rewards, strict=True):
        if m.turns:
            end = (m.final_state_key, m.end if m.end in (GOAL, FAILED) else 0)
            assert sums.setdefault(end, of_turns.sum()) == pytest.approx(of_turns.sum(), abs=1e-12)
    shuffled, order = permuted(g, seed)
    after = scheme.assign(shuffled)
    for i, j in enumerate(order):
        np.testing.assert_allclose(after.advantages[i], c.advantages[j], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("propagation", OTHERS)
def test_a_long_path_has_powers_of_the_discount(propagation):
    # on a path all three are γ^d; more than 300 states take the sparse solver
    g = group(walk([*map(str, range(400)), "g"]))
    value = credit.make("rewardflow", discount=0.99, propagation=propagation).assign(g).diagnostics["node_value"]
    expected = credit.make("rewardflow", discount=0.99).assign(g).diagnostics["node_value"]
    np.testing.assert_allclose(value, expected, rtol=1e-9)


@settings(max_examples=80)
@given(
    n=st.integers(2, 7),
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=14),
    seeds=st.lists(st.sampled_from([-1.0, -0.1, 0.0, 0.0, 0.9, 1.0, 10.0]), min_size=7, max_size=7),
    discount=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
)
def test_released_propagation_equals_a_thousand_sweeps(n, edges, seeds, discount):
    pairs = sorted({(a % n, b % n) for a, b in edges if a % n != b % n})
    assume(pairs)
    inside = sorted({node for pair in pairs for node in pair})
    value = {node: seeds[node] for node in inside}
    for _ in range(1000):
        swept = {s: max([value[s], *(discount * value[b] for a, b in pairs if a == s)]) for s in inside}
        if swept == value:
            break
        value = swept
    ours = _propagated(n, {node: seeds[node] for node in inside}, [i * n + j for i, j in pairs], discount)
    np.testing.assert_allclose(ours, [value.get(node, 0.0) for node in range(n)], rtol=1e-12, atol=1e-12)


def test_released_propagation_depends_on_the_longest_episode_of_the_batch():
    # alone, the last turn of the success is the last of a longest episode and gets the raw reward 10; beside a longer episode of
    # another task its value is 10 − 9
    short = group(walk("s a g", reward=10.0))
    other = Group(tuple(walk([f"o{t}" for t in range(9)], "failed") for _ in range(1)))
    alone, beside = (released("rewardflow").assign_batch(batch)[0] for batch in ([short], [short, other]))
    assert alone.flat_step_rewards[-1] == 10.0
    assert beside.flat_step_rewards[-1] == pytest.approx(1.0)


def test_success_propagation_does_not_depend_on_the_rest_of_the_batch():
    short = group(walk("s a g", reward=10.0))
    other = Group((walk([f"o{t}" for t in range(9)], "failed"),))
    scheme = released("rewardflow", propagation="success_hops")
    alone, beside = (scheme.assign_batch(batch)[0] for batch in ([short], [short, other]))
    assert alone.flat_advantages.tolist() == beside.flat_advantages.tolist()


def same_last_text():
    """Both ends have one text (Search: the empty text), and the failure was recorded first."""
    padding = walk([f"p{t}" for t in range(9)], "failed", name="longest")
    return group(walk(["s", "a", ""], "failed"), walk(["s", "b", ""], name="won", reward=10.0), padding)


def test_released_propagation_ignores_a_success_after_a_failure_with_the_same_text():
    rewards = released("rewardflow").assign(same_last_text()).step_rewards
    assert rewards[1].tolist() == [0.0, 0.0]


def test_success_propagation_separates_terminal_nodes():
    rewards = released("rewardflow", propagation="success_hops").assign(same_last_text()).step_rewards
    np.testing.assert_allclose(rewards[1], [0.9 - 0.81, 1.0 - 0.9])
    np.testing.assert_allclose(rewards[0], [-0.81, 0.0])


def look_and_act(**options):
    """From s: act and succeed; or look (invalid), then act. "n" is the text "nothing happens"."""
    g = group(walk("s a g"), walk("s n s a g", invalid=[0, 1], name="looked"), walk("s x", "failed"))
    return credit.make("rewardflow", discount=0.5, **options).assign(g)


def test_the_comparison_at_a_state_has_its_kept_turns_alone():
    c = look_and_act()
    clean = group(walk("s a g"), walk("s a g", name="looked"), walk("s x", "failed"))
    expected = credit.make("rewardflow", discount=0.5).assign(clean)
    assert c.step_advantages[1][:2].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(c.step_advantages[1][2:], expected.step_advantages[1])
    np.testing.assert_allclose(c.step_advantages[0], expected.step_advantages[0])


@pytest.mark.parametrize("pruned", range(3))
def test_group_of_a_state_is_worked_out_by_hand(pruned: int) -> None:
    """Two turns at s raise the potential from 1/2 to 1, one loses it: z-scores of (1/2, 1/2, -1/2) are .577, .577 and -1.155.

    Invalid turns at s change nothing in this, and get no action credit, however many there are.
    """
    looks = ["s"] * (pruned + 1)
    g = group(walk("s g"), walk(" ".join([*looks, "g"]), invalid=range(pruned), name="looked"), walk("s x", "failed"))
    c = credit.make("rewardflow", discount=0.5).assign(g)
    step = [part.round(3).tolist() for part in c.step_advantages]
    assert step == [[0.577], [0.0] * pruned + [0.577], [-1.155]]


def test_released_propagation_can_prune_invalid_transitions_too():
    # the invalid s→b must not be a shortcut: V(s) = 10 γ³ instead of 10 γ²
    padding = walk([f"p{t}" for t in range(9)], "failed", name="longest")
    g = group(walk("s a b g", reward=10.0), walk("s b", "env_limit", invalid=[0]), padding)
    value = {
        pruning: dict(zip(c.diagnostics["node_keys"], c.diagnostics["node_value"], strict=True))["s"]
        for pruning in ("self_loops", "invalid")
        for c in [released("rewardflow", pruning=pruning, discount=0.5).assign(g)]
    }
    assert value == {"self_loops": 2.5, "invalid": 1.25}


def test_bridging_without_the_released_propagation_is_rejected():
    with pytest.raises(ConfigError, match="first_seen_rewards"):
        credit.make("rewardflow", pruning="alfworld")
