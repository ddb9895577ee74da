"""The strict dialects: a completion follows the format or is rejected with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.agents.language_model.parsing import BareDialect, ReactDialect, TaggedDialect, make_dialect
from creditflow.envs.errors import ConfigError


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("", "the answer is empty"),
        (" \n", "the answer is empty"),
        ("up", "there is no <action>…</action>"),
        ("<action>up</action>", "there is no <think>…</think> before the action"),
        ("<think>a</think>up", "there is no <action>…</action>"),
        ("<think>a</think><action></action>", "<action> is empty"),
        ("<think>a</think><action>up", "<action>…</action> must occur once; it is opened 1 and closed 0 times"),
        (
            "<think>a</think><action>up</action><action>up</action>",
            "<action>…</action> must occur once; it is opened 2 and closed 2 times",
        ),
        ("<think>a</think> so <action>up</action>", "text outside <think> and <action>"),
        ("<think>a</think><action>up</action> done", "text outside <think> and <action>"),
        ("<THINK>a</THINK><ACTION>up</ACTION>", "there is no <action>…</action>"),
    ],
)
def test_the_strict_parser_gives_a_reason(response: str, reason: str) -> None:
    parsed = TaggedDialect().parse(response)
    assert (parsed.action, parsed.valid, parsed.reason) == ("", False, reason)


def test_the_strict_parser_keeps_thought_and_action() -> None:
    parsed = TaggedDialect().parse("<think> the box\nis free </think>\n<action> push left </action>\n")
    assert (parsed.action, parsed.valid, parsed.thought) == ("push left", True, "the box\nis free")


words = st.text(st.characters(exclude_characters="<>"), min_size=1).map(str.strip).filter(bool)


@given(words, words)
def test_a_dialect_parses_what_it_writes(action: str, thought: str) -> None:
    for dialect in (BareDialect(), TaggedDialect(think=True), TaggedDialect(think=False)):
        parsed = dialect.parse(dialect.write(action, thought))
        assert (parsed.action, parsed.valid) == (action, True)


def test_unknown_dialects_suggest_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'think'"):
        make_dialect("thinks")
    with pytest.raises(ConfigError, match="did you mean 'sokoban'"):
        make_dialect("verl_agent:sokobn")


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("", "the answer is empty"),
        ("up", "there is no line that begins with Thought:"),
        ("Thought: a", "there is no line that begins with Action:"),
        ("Thought: a Action: up", "there is no line that begins with Action:"),
        ("Thought: a\nAction: up\nAction: up", "there is more than one line (2) that begins with Action:"),
        ("Action: up\nThought: a", "the answer must begin with Thought: and end with Action:"),
        ("Well.\nThought: a\nAction: up", "the answer must begin with Thought: and end with Action:"),
        ("Thought: a\nAction:", "Action: is empty"),
        ("Thought: a\nAction: up\nObservation: a wall", "Action: is followed by more than its one line"),
    ],
)
def test_react_rejects_anything_but_a_thought_and_one_action(response: str, reason: str) -> None:
    parsed = ReactDialect().parse(response)
    assert (parsed.valid, parsed.action, parsed.reason) == (False, "", reason)


def test_react_parses_what_it_writes_and_thoughts_may_have_several_lines() -> None:
    react = make_dialect("react")
    parsed = react.parse(react.write("go to shelf 1", "first this,\nthen that"))
    assert (parsed.action, parsed.thought, parsed.valid) == ("go to shelf 1", "first this,\nthen that", True)


ACTION, THINK = "there is no <action>…</action>", "there is no <think>…</think>"
BLOCK = "there is no <search>…</search> and no <answer>…</answer>"
TWICE = "there must be exactly one <search> or <answer> tag, but 2 are opened"


@pytest.mark.parametrize(
    ("env", "response", "reason"),
    [
        ("alfworld", "<think>a</think>look", ACTION),
        ("webshop", "<action>back</action>", THINK),
        ("webshop", "<think>价格</think><action>back</action>", "it has Chinese characters"),
        ("sokoban", "<think>a</think>up", ACTION),
        ("sokoban", "<action>up</action>", THINK),
        ("sokoban", "<think>a</think><action>north</action>", "<action> has none of up, down, left, right, still"),
        ("search", "<think>a</think>who", BLOCK),
        ("search", "<think>a</think><search>who", BLOCK),
        ("search", "<think>a</think></search><search>", BLOCK),
        ("search", "<search>who</search><answer>me</answer>", TWICE),
        ("search", "<search>who<answer>", TWICE),
        ("search", "<think>a</think><action>who</action>", BLOCK),
    ],
)
def test_the_released_projections_say_why_a_completion_is_invalid(env: str, response: str, reason: str) -> None:
    assert make_dialect(f"verl_agent:{env}").parse(response).reason == reason


PIECES = st.sampled_from(
    ["<think>", "</think>", "<action>", "</action>", "<search>", "</search>", "<answer>", "</answer>", "up", "who"]
)


@given(st.lists(PIECES, max_size=8).map("".join), st.sampled_from(["alfworld", "webshop", "sokoban", "search"]))
def test_reasons_of_the_released_projections_name_tags_of_their_own_format(response: str, env: str) -> None:
    reason = make_dialect(f"verl_agent:{env}").parse(response).reason
    foreign = ("<action>", "<think>") if env == "search" else ("<search>", "<answer>")
    assert not any(tag in reason for tag in foreign)


@pytest.mark.parametrize(
    ("answer", "action", "valid"),
    [
        ("Right || up || Left", "right up", True),  # the third is cut, without a penalty
        ("Right||", "right", True),  # nothing after the separator is no entry
        ("jump || Up", "up", False),  # what is a move is made, and the turn is penalised
        ("Up || Down || jump", "up down", True),  # cut before it is looked at
        ("up right", "", False),  # without a separator this is one entry
        ("", "", False),
    ],
)
def test_ragen_reads_the_first_entries_between_its_separators(answer: str, action: str, valid: bool) -> None:
    parsed = make_dialect("ragen:2").parse(f"Well. <think>so</think>\n<answer>{answer}</answer> done")
    assert (parsed.action, parsed.valid, bool(parsed.reason), parsed.thought) == (action, valid, not valid, "so")


def test_ragen_needs_a_thought_before_its_answer_and_a_number_of_moves() -> None:
    assert make_dialect("ragen:2").parse("<answer>Up</answer>").action == ""
    assert make_dialect("ragen:3").write("right up") == "<think></think><answer>Right || Up</answer>"
    with pytest.raises(ConfigError, match="write ragen:M"):
        make_dialect("ragen")
