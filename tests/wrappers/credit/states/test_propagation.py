"""RewardFlow's other potentials: the mean distance to all successes, and mean aggregation without trained weights."""

from __future__ import annotations

from math import sqrt

import networkx as nx
import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import COSTS, DENSE, groups, permuted
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit.states.rewardflow import success_potential
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.trajectory import FAILED, GOAL

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


def test_a_detour_may_gain_under_the_mean_distance_and_cannot_under_the_nearest_success():
    # table 11's reason: from b, h is one hop away, but leaving for a with its one far success raises the mean potential
    assert rewards("mean_hops", *TWO_GOALS)[0][1] == pytest.approx(0.5 - 1 / (2 * sqrt(2)))
    assert rewards("success_hops", *TWO_GOALS)[0][1] == 0.0


def test_the_network_averages_over_the_edges_that_leave_a_state():
    # R(a) = 1/2, R(b) = 1/2 · (1/2 + 1)/2 = 3/8, R(s) = R(t) = 3/16
    assert rewards("graph_network", *TWO_GOALS) == [
        pytest.approx([3 / 16, 1 / 8, 1 / 2]),
        pytest.approx([3 / 16, 5 / 8]),
    ]


def test_a_failure_halves_the_network_s_value_and_repeats_do_not_count():
    # R(a) = 1/2 · (1 + 0)/2, although two of three rollouts failed
    trajectories = walk("s a g"), walk("s a x", "failed"), walk("s a x", "failed", name="again")
    assert rewards("graph_network", *trajectories)[0] == pytest.approx([1 / 8, 3 / 4])


def test_the_network_solves_cycles():
    # R(a) = 1/2 · (R(s) + 1)/2 and R(s) = R(a)/2: R(a) = 2/7, R(s) = 1/7
    assert rewards("graph_network", walk("s a s a g"))[0] == pytest.approx([1 / 7, -1 / 7, 1 / 7, 5 / 7])


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
