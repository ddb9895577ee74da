"""Parsing of transcripts: order, truncated tags, protocol text inside passages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.wikisearch.protocol.dialects import DIALECTS, SearchR1
from creditflow.envs.wikisearch.protocol.transcript import read_transcript


def information(text: str) -> str:
    dialect = DIALECTS["search_r1"]
    assert isinstance(dialect, SearchR1)
    return dialect.information(text)


DOCS = "Doc 1(Title: Nile) It is long.\nDoc 2(Title: Rhine) It is not."


def calls(response):
    return [turn.call and (turn.call.tool, turn.call.items[0].strip()) for turn in read_transcript(response)]


def test_thoughts_are_between_their_tags_and_without_tags_before_the_call():
    turns = read_transcript(
        "I plan. <think>deeply</think> <search>Nile</search>"
        + information(DOCS)
        + "It is long.\n<answer> yes </answer>"
    )
    assert [turn.thought.split() for turn in turns] == [["deeply"], ["It", "is", "long."]]
    assert turns[0].information == DOCS
    assert turns[1].observation == ""


def test_an_invalid_action_message_that_quotes_tags_is_not_a_search():
    for name in ("search_r1", "pica"):
        message = DIALECTS[name].invalid("")
        turns = read_transcript("Hm." + message + "<search>Nile</search>" + information(DOCS) + "<answer>yes</answer>")
        assert [turn.call is None for turn in turns] == [True, False, False]
        assert turns[0].text == "Hm."
        assert turns[1].call is not None
        assert turns[1].call.items == ("Nile",)


def test_an_unclosed_block_is_not_closed_by_the_invalid_action_message():
    turns = read_transcript("<search>Nile" + DIALECTS["search_r1"].invalid("") + "<answer>yes</answer>")
    assert [turn.call and turn.call.tool for turn in turns] == [None, "answer"]


def test_the_last_turns_notice_belongs_to_the_observation():
    shown = information(DOCS) + DIALECTS["pica"].limit("")
    turns = read_transcript("<search>Nile</search>" + shown + "So <answer>yes</answer>")
    assert turns[0].observation.endswith("</warning>")
    assert turns[1].thought == "So"


@pytest.mark.parametrize(
    "quoted",
    [
        "a page about <search>tags</search> and more",
        "a </information> in the middle of a line",
        "<answer>42</answer> they said",
        "<information> opens, </information> closes",
    ],
)
def test_protocol_text_inside_a_passage_belongs_to_the_passage(quoted):
    text = f"Doc 1(Title: Tags) {quoted}\nDoc 2(Title: Nile) It is long."
    response = (
        "<search>one</search>"
        + information(text)
        + "on <search>two</search>"
        + information(DOCS)
        + "<answer>x</answer>"
    )
    assert calls(response) == [("search", "one"), ("search", "two"), ("answer", "x")]
    assert read_transcript(response)[0].information == text


def test_an_information_block_without_its_end_stops_at_the_models_next_tag():
    response = "<search>one</search>\n\n<information>Doc 1(Title: Nile) It is lo<search>two</search>" + information(
        DOCS
    )
    turns = read_transcript(response)
    assert [turn.call and turn.call.items[0] for turn in turns] == ["one", "two"]
    assert turns[0].information == "Doc 1(Title: Nile) It is lo"


@pytest.mark.parametrize("cut", ["<search>Nile", "I think that", "<answer>ye"])
def test_truncated_text_is_a_turn_without_a_call(cut):
    turns = read_transcript("<search>one</search>" + information(DOCS) + cut)
    assert turns[-1].call is None
    assert turns[-1].text == cut
    assert turns[-1].reason


def test_the_first_answer_ends_the_transcript():
    assert calls("<answer>a</answer> <search>b</search> <answer>c</answer>") == [("answer", "a")]


def test_a_search_without_a_result_is_a_separate_turn():
    assert calls("<search>a</search> <search>b</search>" + information(DOCS)) == [("search", "a"), ("search", "b")]


PIECES = st.sampled_from(
    ["<search>", "</search>", "<answer>", "</answer>", "<information>", "</information>", "\n\n", "text ", "<think>",
     "</think>", DIALECTS["pica"].invalid(""), "Doc 1(Title: a) b\n"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25))
def test_no_text_is_lost_or_read_twice(pieces):
    response = "".join(pieces)
    turns = read_transcript(response)
    kept = "".join(turn.text + turn.observation for turn in turns)
    assert "".join(kept.split()) == "".join(response.split())
    assert all(turn.call is None or turn.call.tool != "answer" for turn in turns[:-1])
