"""The grammar of a turn: it accepts exactly the turns that a dialect plays as they were meant, and nothing else counts as a thought."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from creditflow.envs.wikisearch.actions import JSON_CALLS, TEXT_CALLS, Call, Tool, is_tagged, tagged_thought, turn_fault
from creditflow.envs.wikisearch.grading.rewards import FORMAT_RULES, Transcript
from creditflow.envs.wikisearch.protocol.dialects import Dialect, dialect

CALLS = {"search_r1": TEXT_CALLS, "pica": TEXT_CALLS, "tool_call": JSON_CALLS, "browse": JSON_CALLS}
EVERY = pytest.mark.parametrize("name", CALLS)
WORDS = st.sampled_from(["Nolan", "born in London?", "a | b", "7", "é"])
PIECES = st.sampled_from(
    [
        "<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>", "<access>", "</access>", "<tool_call>",
        "</tool_call>", "<tool_response>", "</tool_response>", "<information>", "</information>", "Nolan", " ", "\n", "so",
        '{"name": "search", "arguments": {"query": ["x"]}}', '{"name": "visit", "arguments": {"url": ["x"], "goal": "y"}}',
        '{"name": "search", "arguments": {}}', "<think>Nolan</think>", "<search>x</search>", "<answer>7</answer>",
    ]
)  # fmt: skip


def squeezed(text: str) -> str:
    return "".join(text.split())


def meant(text: str, chosen: Dialect) -> bool:
    """Whether a text is, up to white space, the thought and the call that a dialect reads in it, and these have no tags."""
    call, _, thought = chosen.parse(text)
    if call is None or not thought.strip() or not all(item.strip() for item in call.items):
        return False
    written = f"<think>{thought}</think>{chosen.write(call)}"
    return not any(map(is_tagged, (thought, *call.items))) and squeezed(written) == squeezed(text)


@EVERY
@given(pieces=st.lists(PIECES, max_size=9))
@example(pieces=["<think>Nolan</think>", "\n", "<search>x</search>"])
@example(pieces=["<think>Nolan</think>", "<answer>7</answer>", " "])
def test_the_grammar_accepts_exactly_what_the_dialect_plays_as_it_was_meant(name: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    assert (turn_fault(text, calls=CALLS[name]) == "") == meant(text, dialect(name))


@EVERY
@given(thought=WORDS, item=WORDS, tool=st.sampled_from(get_args(Tool)), space=st.sampled_from(["", " ", "\n\n"]))
def test_a_written_turn_is_accepted_and_read_as_its_thought_and_its_call(
    name: str, thought: str, item: str, tool: Tool, space: str
) -> None:
    chosen = dialect(name)
    call = Call(tool, (item,))
    text = f"{space}<think>{thought}</think>{space}{chosen.write(call)}{space}"
    assert turn_fault(text, calls=CALLS[name]) == ""
    assert chosen.parse(text) == (call, "", thought)
    assert tagged_thought(text) == thought


@EVERY
@given(thought=WORDS, item=WORDS, prose=WORDS)
def test_what_is_around_a_turn_makes_it_malformed_and_is_no_thought(
    name: str, thought: str, item: str, prose: str
) -> None:
    chosen = dialect(name)
    call, think = chosen.write(Call("answer", (item,))), f"<think>{thought}</think>"
    result = f"<tool_response>{prose}</tool_response>"
    broken = {
        "before": f"{prose}{think}{call}",
        "between": f"{think}{prose}{call}",
        "after": f"{think}{call}{prose}",
        "a forged result": f"{think}{call}{result}",
        "a forged result in the thought": f"<think>{thought}{result}</think>{call}",
        "two thoughts": f"{think}<think>{prose}</think>{call}",
        "two calls": f"{think}{call}{call}",
        "an unclosed thought": f"<think>{thought}{call}",
        "a thought without its beginning": f"{thought}</think>{call}",
        "a thought after the call": f"{call}{think}",
        "prose": f"{prose}{call}",
        "no thought": call,
        "a blank thought": f"<think> \n</think>{call}",
        "no call": think,
        "an unclosed call": f"{think}<answer>{item}",
        "an empty call": f"{think}<answer> </answer>",
        "a tag in the call": f"{think}<answer>{item}<search></answer>",
    }
    for what, text in broken.items():
        assert turn_fault(text, calls=CALLS[name]), what
    for what in ("before", "between", "after", "a forged result"):
        assert tagged_thought(broken[what]) == thought, what
    assert tagged_thought(broken["a forged result in the thought"]).strip() == thought
    for what in ("an unclosed thought", "prose", "no thought"):
        assert tagged_thought(broken[what]) == "", what


@given(text=st.lists(PIECES, max_size=9).map("".join), last=st.booleans())
def test_egrpos_format_of_one_turn_is_the_grammar(text: str, last: bool) -> None:
    answer = "<think>so</think><answer>7</answer>"
    call = '<think>so</think><tool_call>{"name": "search", "arguments": {"query": "x"}}</tool_call>'
    turns = ((call, ""), (text, "")) if last else ((text, ""), (answer, ""))
    form = FORMAT_RULES["egrpo"](Transcript("", (), turns=turns))
    assert form.valid == (turn_fault(text, calls=("answer",) if last else ("tool_call",)) == "")


def test_a_thought_that_a_server_keeps_apart_belongs_to_a_bare_call() -> None:
    bare = "<answer>7</answer>"
    assert turn_fault(bare, "so") == ""
    assert tagged_thought(bare, "so") == "so"
    assert turn_fault(f"Nolan {bare}", "so")
    assert tagged_thought(f"Nolan {bare}", "so") == ""


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ("<think>a</think><search>q</search>", "<search> is no call here: the calls are <tool_call>, <answer>"),
        ("<think>a</think><tool_call>search q</tool_call>", "the tool call must be JSON"),
        ('<think>a</think><tool_call>{"name": "rm", "arguments": {}}</tool_call>', "the tools are search and visit"),
    ],
)
def test_a_fault_says_what_is_wrong(response: str, message: str) -> None:
    assert message in turn_fault(response, calls=JSON_CALLS)
