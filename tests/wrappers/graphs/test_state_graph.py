"""The state graph: comparison with networkx, a hand-made graph, typed terminal nodes, merged states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import COSTS, groups
from hypothesis import given, settings

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.canonical.similarity import greedy_similarity
from creditflow.wrappers.graphs.state_graph import GraphStatistics, StateGraph
from creditflow.wrappers.trajectory import FAILED, GOAL, OPEN, TRUNCATED, Group, Trajectory

KINDS = {OPEN: "open", GOAL: "goal", FAILED: "failed", TRUNCATED: "truncated"}


def nodes(graph):
    return sorted((key, KINDS[kind]) for key, kind in zip(graph.keys, graph.kind.tolist(), strict=True))


def by_key(graph, values):
    return {(k, KINDS[kind]): v for k, kind, v in zip(graph.keys, graph.kind.tolist(), values.tolist(), strict=True)}


# -- against networkx ---------------------------------------------------------------------------------------------------
def peer(g: Group) -> tuple[nx.MultiDiGraph, list[tuple[str, str]]]:
    """The graph built turn by turn: nodes (key, kind), one edge per turn."""
    graph: nx.MultiDiGraph = nx.MultiDiGraph()
    goals = []
    for m in g.trajectories:
        for t, turn in enumerate(m.turns):
            last = t == len(m.turns) - 1
            kind = (
                {"success": "goal", "failed": "failed", "format": "failed"}.get(m.stop_reason, "open")
                if last
                else "open"
            )
            graph.add_edge((turn.state_key, "open"), (turn.next_state_key, kind), weight=turn.cost)
            if kind == "goal":
                goals.append((turn.next_state_key, kind))
    return graph, goals


@settings(max_examples=50)
@given(g=groups(costs=COSTS))
def test_distances_with_unequal_costs_equal_those_of_networkx(g):
    theirs, goals = peer(g)
    expected = nx.multi_source_dijkstra_path_length(theirs.reverse(), set(goals)) if goals else {}
    graph = StateGraph.from_group(g)
    assert set(by_key(graph, graph.kind)) == set(theirs.nodes)
    for node, d in by_key(graph, graph.distances()).items():
        assert d == pytest.approx(expected.get(node, np.inf))


@settings(max_examples=50)
@given(g=groups(costs=COSTS))
def test_hops_equal_those_of_networkx_whatever_the_costs(g):
    theirs, goals = peer(g)
    expected = nx.multi_source_dijkstra_path_length(theirs.reverse(), set(goals), weight=None) if goals else {}
    graph = StateGraph.from_group(g)
    assert by_key(graph, graph.distances("hops")) == {n: expected.get(n, np.inf) for n in theirs.nodes}
    assert by_key(graph, graph.reachable()) == {n: n in expected for n in theirs.nodes}


@settings(max_examples=40)
@given(g=groups(costs=COSTS))
def test_networkx_gets_the_same_graph_back(g):
    graph = StateGraph.from_group(g)
    exported = graph.to_networkx()
    assert len(exported) == graph.size
    assert sum(data["count"] for *_, data in exported.edges(data=True)) == len(g.turns)
    goals = [n for n, data in exported.nodes(data=True) if data["kind"] == "goal"]
    expected = nx.multi_source_dijkstra_path_length(exported.reverse(), set(goals), weight="cost") if goals else {}
    for node, data in exported.nodes(data=True):
        assert data["distance"] == pytest.approx(expected.get(node, np.inf))


@settings(max_examples=40)
@given(g=groups(costs=COSTS))
def test_a_graph_comes_back_from_networkx(g):
    graph = StateGraph.from_group(g)
    again = StateGraph.from_networkx(graph.to_networkx())
    assert (again.keys, again.kind.tolist()) == (graph.keys, graph.kind.tolist())
    assert again.distances().tolist() == graph.distances().tolist()
    assert again.visits.tolist() == graph.visits.tolist()
    assert dict(again.to_networkx().edges.items()) == dict(graph.to_networkx().edges.items())


def test_a_graph_drawn_by_hand_has_defaults():
    drawn: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    drawn.add_node("safe", kind="goal")
    drawn.add_edge("hall", "safe", action="jump", cost=3.0)
    drawn.add_edge("hall", "study", count=2)
    drawn.add_edge("study", "safe")
    graph = StateGraph.from_networkx(drawn)
    assert dict(zip(graph.keys, graph.distances().tolist(), strict=True)) == {"safe": 0.0, "hall": 2.0, "study": 1.0}
    assert (graph.actions, graph.visits.tolist()) == (("jump", "study", "safe"), [0, 3, 1])
    assert graph.statistics().turns == 4
    assert StateGraph.from_networkx(nx.DiGraph()).size == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: graph.add_node("c", kind="gaol"), "did you mean 'goal'"),
        (lambda graph: graph.add_node("c", key="a"), "same key and the same kind"),
        (lambda graph: graph.add_edge("a", "b", cost=0.0), "cost must be positive and finite"),
        (lambda graph: graph.add_edge("a", "b", cost=float("nan")), "cost must be positive and finite"),
        (lambda graph: graph.add_edge("a", "b", count=1.5), "count a positive integer"),
    ],
)
def test_a_graph_that_is_no_state_graph_is_refused(change, message):
    drawn: Any = nx.DiGraph()
    undirected: Any = nx.Graph()
    for graph in (drawn, undirected):
        graph.add_edge("a", "b")  # a list of edges would make old networkx look for pandas
    change(drawn)
    with pytest.raises(ConfigError, match=message):
        StateGraph.from_networkx(drawn)
    with pytest.raises(ConfigError, match="directed"):
        StateGraph.from_networkx(undirected)


# -- a hand-made graph --------------------------------------------------------------------------------------------------
#   s -> a -> g (goal)      s -> b -> x (failed)      s -> b (truncated)      s -> s (invalid)
#   "to b" once led to c: a conflict
HAND = (
    walk("s a g", costs=[2.0, 1.0]),
    walk("s b x", "failed"),
    walk("s s b", "env_limit", invalid=[0], costs=[1.0, 0.5]),
    walk("s c", "env_limit", actions=["to b"]),
)


def test_statistics_of_a_graph_counted_by_hand():
    assert StateGraph.from_group(group(*HAND)).statistics() == GraphStatistics(
        turns=7,
        nodes=6,  # s a g b x c
        edges=6,  # s→a a→g s→b b→x s→s s→c; s→b was seen twice
        unique_states=3,  # actions were taken in s, a and b
        singleton_fraction=2 / 3,  # s five times, a once, b once
        goals=1,
        connected_fraction=6 / 7,  # all but the turn from b
        conflicts=1,  # (s, "to b") → b, c
        valid_fraction=6 / 7,
        effective_fraction=6 / 7,
    )


def test_a_pair_with_three_followers_is_one_conflict():
    rollouts = [walk(["s", end], "env_limit", actions=["go"]) for end in "abc"]
    assert StateGraph.from_group(group(*rollouts)).statistics().conflicts == 1


def test_parallel_traversals_are_one_edge_at_the_least_cost():
    graph = StateGraph.from_group(group(*HAND)).to_networkx()
    names = {data["key"]: n for n, data in graph.nodes(data=True)}
    edge = graph.edges[names["s"], names["b"], "to b"]
    assert edge == {"action": "to b", "cost": 0.5, "count": 2}


def test_networkx_nodes_carry_key_kind_visits_and_distance():
    graph = StateGraph.from_group(group(*HAND)).to_networkx()
    data = {d["key"]: (d["kind"], d["visits"], d["distance"]) for _, d in graph.nodes(data=True)}
    assert data == {
        "s": ("open", 5, 3.0),
        "a": ("open", 1, 1.0),
        "g": ("goal", 0, 0.0),
        "b": ("open", 1, np.inf),
        "x": ("failed", 0, np.inf),
        "c": ("open", 0, np.inf),
    }


def test_edges_of_different_actions_between_two_states_stay_separate():
    g = group(walk("s a", "env_limit", actions=["north"]), walk("s a", "env_limit", actions=["up"]))
    assert len(StateGraph.from_group(g).edges.source) == 2


def test_an_action_is_left_out_of_the_edges_but_its_states_stay():
    kept = np.array([True, False])
    graph = StateGraph.from_group(group(walk("s a g")), kept=kept)
    assert (graph.size, len(graph.edges.source)) == (3, 1)
    assert by_key(graph, graph.distances())["s", "open"] == np.inf


def test_a_group_without_turns_is_an_empty_graph():
    g = Group((Trajectory("t", "g", "task", (), False, 0.0, "env_error", "s"),))
    graph = StateGraph.from_group(g)
    assert (graph.size, len(graph.distances()), len(graph.to_networkx())) == (0, 0, 0)
    assert graph.statistics().connected_fraction == 0.0


# -- ends are typed -----------------------------------------------------------------------------------------------------
ENDS = (walk("s e", name="won"), walk("s e", "failed", name="lost"), walk("s e", "env_limit", name="cut"))


def test_ends_of_one_key_never_merge_across_kinds():
    g = group(*ENDS, walk("e s", "env_limit", name="acted in e"))
    assert nodes(StateGraph.from_group(g)) == [("e", "failed"), ("e", "goal"), ("e", "open"), ("s", "open")]


def test_truncated_ends_can_be_separated_and_failed_ends_merged():
    g = group(*ENDS)
    apart = StateGraph.from_group(g, truncated="separate")
    assert nodes(apart) == [("e", "failed"), ("e", "goal"), ("e", "truncated"), ("s", "open")]
    merged = StateGraph.from_group(g, failed="merge")
    assert nodes(merged) == [("e", "goal"), ("e", "open"), ("s", "open")]


def test_the_caller_can_choose_which_trajectories_reach_the_goal():
    graph = StateGraph.from_group(group(*ENDS), goal=np.array([False, True, False]))
    assert nodes(graph) == [("e", "goal"), ("e", "open"), ("s", "open")]


def test_text_keys_make_the_graph_of_texts():
    def seen(m):
        return replace(m, turns=tuple(replace(t, text_key="room") for t in m.turns), final_text_key="hall")

    graph = StateGraph.from_group(group(seen(walk("s a g"))), key="text")
    assert nodes(graph) == [("hall", "goal"), ("room", "open")]


# -- similar states -----------------------------------------------------------------------------------------------------
def test_merged_states_are_one_node_under_the_name_of_their_representative():
    g = group(walk("s a g"), walk("s b x", "failed"))
    keys = g.arrays.states.keys
    labels = np.arange(len(keys))
    labels[keys.index("b")] = keys.index("a")
    graph = StateGraph.from_group(g, labels=labels)
    assert nodes(graph) == [("a", "open"), ("g", "goal"), ("s", "open"), ("x", "failed")]
    assert by_key(graph, graph.distances())["a", "open"] == 1.0


def test_greedy_similarity_compares_with_the_first_member_of_each_cluster_in_order():
    # ab ~ abc ~ abcd at 0.8 (ratios 2·2/5, 2·3/7), but ab ≁ abcd (2·2/6): from ab, abcd starts its own cluster
    keys = ["ab", "abc", "abcd"]
    assert greedy_similarity(keys, [0, 1, 2], 0.8).tolist() == [0, 0, 2]
    assert greedy_similarity(keys, [1, 0, 2], 0.8).tolist() == [1, 1, 1]
    assert greedy_similarity(keys, [2], 0.8).tolist() == [0, 1, 2]


BUILD = StateGraph.from_group


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda g, wrong: BUILD(g, truncated=wrong("merged")),
            "unknown value of truncated 'merged'; did you mean 'merge'",
        ),
        (lambda g, wrong: BUILD(g, failed=wrong("apart")), "unknown value of failed 'apart'"),
        (lambda g, wrong: BUILD(g, key=wrong("texts")), "unknown value of key 'texts'; did you mean 'text'"),
        (lambda g, wrong: BUILD(g).distances(wrong("hop")), "did you mean 'hops'"),
        (lambda g, wrong: greedy_similarity(["a"], [0], 1.0), "threshold must lie in"),
    ],
)
def test_unknown_names_suggest_the_nearest_one(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(group(walk("s g")), str)
