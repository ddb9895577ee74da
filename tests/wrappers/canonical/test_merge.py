"""Merging similar states of a group: which texts are compared, what stays separate, and independence of order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import groups, permuted
from helpers.models.count_embedder import CountEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.wrappers.canonical.merge import merged_group, similar_states, state_texts
from creditflow.wrappers.canonical.similarity import greedy_similarity
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.trajectory import Group

COUNTS = CountEmbedder()


def texted(trajectory, texts, observations=()):
    """The rollout with these text keys (one more than turns)."""
    turns = tuple(
        replace(turn, text_key=text, observation=observations[t] if observations else "")
        for t, (turn, text) in enumerate(zip(trajectory.turns, texts, strict=False))
    )
    return replace(trajectory, turns=turns, final_text_key=texts[-1])


def partition(g, found):
    """Sets of text keys that are one state."""
    keys = g.states("text").keys
    together: dict[str, set[str]] = {}
    for key, leader in zip(keys, found.tolist(), strict=True):
        together.setdefault(keys[leader], set()).add(key)
    return {(name, frozenset(members)) for name, members in together.items()}


HALL = "You stand in the long hall of an old house, with doors on both sides and a lamp on the wall"


ROOMS = {
    "a": "A kitchen: an iron stove, two shelves with plates, a wooden table and a window to the yard.",
    "b": "A garden behind the house; an apple tree stands there, a bench, and a well with a rope.",
    "g": "The cellar, dark and cold, where barrels lie in three rows and the treasure shines.",
}


def noisy(path, end="env_limit"):
    """A rollout through rooms whose descriptions carry a remark now and then."""
    remarks = ["", " It rains.", " A dog barks."]
    return texted(walk(path, end), [ROOMS[room] + remarks[t % 3] for t, room in enumerate(path.split())])


def test_pages_that_differ_by_a_remark_are_one_state_under_the_shortest_text():
    g = group(noisy("b a b a b a"))
    merged = merged_group(g, similar_states(g, COUNTS, 0.8))
    assert [turn.text_key for turn in merged.turns] == [ROOMS[room] for room in "babab"]
    assert merged.trajectories[0].final_text_key == ROOMS["a"]


@settings(max_examples=60)
@given(g=groups(), seed=st.integers(0, 99), threshold=st.sampled_from([0.3, 0.5, 0.7, 0.9]))
def test_the_partition_does_not_depend_on_the_order_of_rollouts(g, seed, threshold):
    shuffled, _ = permuted(g, seed)
    assert partition(g, similar_states(g, COUNTS, threshold)) == partition(
        shuffled, similar_states(shuffled, COUNTS, threshold)
    )


def test_the_released_greedy_clusters_do_depend_on_it():
    # ab ~ abc ~ abcd at 0.8, but ab is not similar to abcd: who comes first decides
    clusters = {
        order: len(set(greedy_similarity(["ab", "abc", "abcd"], order, 0.8).tolist()))
        for order in ((0, 1, 2), (1, 0, 2))
    }
    assert clusters == {(0, 1, 2): 2, (1, 0, 2): 1}


@pytest.mark.parametrize(("end", "merged"), [("success", False), ("failed", False), ("env_limit", True)])
def test_terminal_nodes_are_not_compared(end, merged):
    g = group(texted(walk("s e", end), [f"{HALL}: 1", f"{HALL}: 2"]))
    assert similar_states(g, COUNTS, 0.7).tolist() == ([0, 0] if merged else [0, 1])


def test_a_merged_graph_keeps_goals_failures_and_open_states_apart():
    page = [f"{HALL}: {i}" for i in range(4)]
    g = group(
        texted(walk("s a g"), page[:3]),
        texted(walk("s x", "failed"), [page[0], page[3]]),
        texted(walk("s a", "env_limit"), [page[0], page[1]]),
    )
    found = similar_states(g, COUNTS, 0.5)
    graph = StateGraph.from_group(g, key="text", labels=found)
    assert sorted(graph.kind.tolist()) == [0, 1, 2]


# -- which text represents a state --------------------------------------------------------------------------------------
def test_digests_are_rejected_as_texts():
    g = group(texted(walk("s t"), ["0f" * 16, "page:" + "a1" * 16]))
    with pytest.raises(TrajectoryError, match="merge_text='observation'"):
        similar_states(g, COUNTS, 0.9)


def test_a_state_is_the_shortest_of_its_observations_whatever_the_order():
    one = texted(walk("s t s"), ["0f" * 16, "1e" * 16, "0f" * 16], [HALL + ", at last", "elsewhere"])
    two = texted(walk("s u"), ["0f" * 16, "2d" * 16], [HALL])
    for members in ((one, two), (two, one)):
        g = group(*members)
        texts = dict(zip(g.states("text").keys, state_texts(g, "observation"), strict=True))
        assert texts == {"0f" * 16: HALL, "1e" * 16: "elsewhere", "2d" * 16: None}


def test_states_without_observation_are_not_merged():
    g = group(texted(walk("s t u"), ["0f" * 16, "1e" * 16, "2d" * 16], [HALL + " 1", HALL + " 2"]))
    assert similar_states(g, COUNTS, 0.8, source="observation").tolist() == [0, 0, 2]


def test_a_log_without_observations_is_an_error():
    with pytest.raises(TrajectoryError, match="no observations"):
        similar_states(group(texted(walk("s t"), ["x", "y"])), COUNTS, 0.9, source="observation")
    with pytest.raises(ConfigError, match="did you mean 'observation'"):
        state_texts(group(texted(walk("s t"), ["x", "y"])), "observations")  # type: ignore[arg-type]  # a user's slip


def test_a_group_without_turns_has_nothing_to_merge():
    g = group(replace(walk("s t", "env_error"), turns=(), final_state_key="s"))
    found = similar_states(g, COUNTS, 0.9)
    assert len(found) == 0
    assert merged_group(g, found) == g


def test_merging_changes_text_keys_and_nothing_else():
    g = group(noisy("a b a"), noisy("a b g", "success"))
    merged = merged_group(g, similar_states(g, COUNTS, 0.8))

    def bare(whole):
        return Group(
            tuple(
                replace(m, turns=tuple(replace(t, text_key="") for t in m.turns), final_text_key="")
                for m in whole.trajectories
            )
        )

    assert merged != g
    assert bare(merged) == bare(g)
