"""Thoughts and observed entities in the formats that models and environments write."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.wikisearch.protocol.dialects import DIALECTS, dialect
from creditflow.envs.wikisearch.render import escape_protocol_tags, one_line
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityReader, strip_query_echo, thought_text
from creditflow.wrappers.trajectory import Turn


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<think>A</think><search>B</search>", "A"),
        ("A <search> B </search> C", "A C"),
        ("A <tool_call>{\"name\": \"B\"}</tool_call>", "A"),
        ("A <tool_response>B</tool_response> C <answer>D</answer>", "A C"),
        ("<think>A</think><action>search: B</action>", "A"),
        ("A\nsearch: B\nC", "A C"),
        ("A\nanswer: B", "A"),
        ("A <search>B", "A"),
        ("A < B and B > C", "A < B and B > C"),
        ("A <information>B</information> <information>C</information> D", "A D"),
    ],
)  # fmt: skip
def test_the_wide_thought_is_all_text_outside_calls_results_and_answers(response: str, expected: str) -> None:
    assert " ".join(thought_text("", response, "ignored", "wide").split()) == expected


def test_a_thought_from_another_channel_is_joined_to_the_response() -> None:
    assert thought_text("apart", "said", "", "wide").split() == ["apart", "said"]
    assert thought_text("said", "said", "", "wide") == "said"


def test_without_a_response_the_recorded_thought_counts_or_else_the_action_around_its_call() -> None:
    assert thought_text("A", "", "B", "wide") == "A"
    assert thought_text("", "", "A <search>B</search>", "wide").split() == ["A"]
    assert thought_text("", "", "search: B", "wide").split() == []


def test_the_recorded_thought_alone_can_be_requested() -> None:
    assert thought_text("A", "B", "C", "recorded") == "A"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Results for: Nolan\nnothing", "nothing"),
        ("2 passages for 'Nolan'\n\n1. [Nolan]\nborn", "\n1. [Nolan]\nborn"),
        ("Doc 1(Title: Nolan) Christopher Nolan is a director from London\n", "same"),
        ("A Google search for 'Nolan' found 2 results:\n\n## Web Results\nborn", "\n## Web Results\nborn"),
        ("Results for: Nolan\nx\n\nResults for: Nolan\ny", "x\n\ny"),
        ("Results for: another\nNolan", "same"),
        ("Nolan, born in London", "same"),
        ("Nolan", "same"),
        ("no echo", "same"),
    ],
)
def test_only_headings_that_repeat_a_query_are_removed(text: str, expected: str) -> None:
    assert strip_query_echo(text, ["Nolan"]) == (text if expected == "same" else expected)


QUERIES = st.lists(
    st.sampled_from(["Nolan", "born in", "a </information> b", "a\tb  c", "Who's 'it'?"]), min_size=1, max_size=3
)
LINES = st.sampled_from(["", ": ", " was born in London", "'s film", "[1] ", "London"])


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=40)
@given(queries=QUERIES, data=st.data())
def test_entities_of_search_results_do_not_depend_on_the_queries(name, queries, data) -> None:
    chosen = dialect(name)
    texts = st.builds("{}{}{}".format, LINES, st.sampled_from([*queries, ""]), LINES)
    passages = [
        [Passage("id", one_line(data.draw(texts)), "\n".join(data.draw(st.lists(texts, max_size=3))), "page")]
        for _ in queries
    ]
    shown = strip_query_echo(chosen.results(queries, passages), queries)
    others = [f"something else {i}" for i in range(len(queries))]
    assert shown == strip_query_echo(chosen.results(others, passages), others)
    for [passage] in passages:
        assert escape_protocol_tags(passage.text).strip() in shown
        assert one_line(escape_protocol_tags(passage.title)) in shown


def test_observed_entities_are_those_of_the_next_observation_and_recorded_ones_at_the_end() -> None:
    graph = EntityGraph.from_task({"entities": ["A1", "B1", "C1"]})
    turns = (
        Turn("0", "a", "1", observation="A1 the question", entities=("C1",)),
        Turn("1", "a", "2", observation="now B1", entities=("A1", "of another graph")),
    )
    assert EntityReader(graph).shown(turns) == [(1,), (0,)]
    assert EntityReader(graph, observations="entities").shown(turns) == [(2,), (0,)]
