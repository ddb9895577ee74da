"""``EntityGraph``: distances are shortest paths, whatever the payload's order, and payloads are checked."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from helpers.episodes.entity_groups import FILM
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.questions import Entity, Question
from creditflow.wrappers.graphs.entity_graph import EntityGraph

numbers = st.integers(0, 7)


@given(st.lists(st.tuples(numbers, numbers), max_size=14), numbers, st.booleans())
def test_distances_are_shortest_paths_to_the_answer(pairs: Any, answer: int, directed: bool) -> None:
    names = [f"N{i}" for i in range(8)]
    task = {"entities": names, "edges": [[names[a], "r", names[b]] for a, b in pairs], "answer_node": names[answer]}
    graph: Any = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(names)
    graph.add_edges_from((names[a], names[b]) for a, b in pairs)
    known = nx.single_source_shortest_path_length(graph.reverse() if graph.is_directed() else graph, names[answer])
    expected = [known.get(name, np.inf) for name in names]
    assert EntityGraph.from_task(task).distances(directed=directed).tolist() == expected


def test_a_question_of_wikisearch_is_a_graph() -> None:
    question = Question(
        "q", "Who?", ("no",), entities=(Entity("A"), Entity("1901", ("in 1901",))), edges=(("A", "born", "1901"),)
    )  # fmt: skip
    graph = EntityGraph.from_task(question.to_json())
    assert graph.names == ("A", "1901")
    assert graph.aliases == ((), ("in 1901",))
    assert (graph.answer, graph.question) == (-1, "Who?")
    assert np.isinf(graph.distances()).all()


def test_a_virtual_answer_is_linked_to_the_values_that_are_compared() -> None:
    question = Question("q", "Who?", ("no", "nay"), entities=(Entity("A"), Entity("B")), edges=(("A", "r", "B"),))
    ours = EntityGraph.from_task(question.to_json(), virtual=True)
    assert (ours.names, ours.aliases[-1], ours.answer) == (("A", "B", "no"), ("nay",), 2)
    assert ours.edges.tolist() == [[0, 1], [1, 2]]
    assert ours.distances().tolist() == [2.0, 1.0, 0.0]


def test_an_answer_of_yes_or_no_is_never_matched() -> None:
    task = {"entities": ["No", {"name": "yes", "aliases": ["Yes!", "it is"]}], "edges": [], "answer_node": "yes"}
    matcher = EntityGraph.from_task(task).matcher()
    assert matcher.found("yes, no") == ()
    assert matcher.found("so it is") == (1,)


def test_a_contribution_below_float64_is_0() -> None:
    names = [f"N{i}" for i in range(1200)]
    edges = [[a, "r", b] for a, b in pairwise(names)]
    contribution = EntityGraph.from_task({"entities": names, "edges": edges, "answer_node": "N0"}).contributions(10.0)
    assert contribution[0] == 1.0
    assert contribution[-1] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entities": "London"}, "entities must be a list"),
        ({"entities": [{"name": 1}]}, "an entity is a name, or an object"),
        ({"entities": ["A", "A"], "edges": [], "answer_node": ""}, "occurs twice"),
        ({"edges": [["Inception", "London"]]}, "an edge is"),
        ({"edges": [["Inception", "r", "Paris"]]}, "an edge is"),
        ({"answer_node": "Paris"}, "'Paris' is not among the 4 entities"),
    ],
)
def test_malformed_payloads_are_errors(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        EntityGraph.from_task({**FILM, **change})
