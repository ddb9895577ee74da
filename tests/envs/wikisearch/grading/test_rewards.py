"""Rewards of transcripts by answer and format."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.envs.wikisearch.actions import blocks
from creditflow.envs.wikisearch.grading.rewards import (
    FORMAT_RULES,
    REWARDS,
    Reward,
    Transcript,
    final_answer,
    last_answer,
    named_reward,
)

GOOD = "<think>a</think><search>q</search>\n\n<information>The Nile is long.</information>\n\n<think>b</think><answer>%s</answer>"
CALLS = (
    '<think>a</think><tool_call>{"name": "search", "arguments": {"query": ["q"]}}</tool_call>'
    "<tool_response>x</tool_response><think>b</think><answer>Nile</answer>"
)


def text(response: str, prompt: str = "<answer> example </answer>") -> Transcript:
    return Transcript(response, ("Nile",), prompt=prompt)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (GOOD % "Nile", 1.0),
        ("so <answer>Nile</answer>", 0.8),
        (GOOD % "Rhine", 0.2),
        ("so <answer>Rhine</answer>", 0.1),
        ("so", 0.0),
    ],
)
def test_search_r1_rewards_the_answer_and_in_part_the_format(response, expected):
    assert REWARDS["search_r1_format"](text(response)) == pytest.approx(expected)


def test_a_retrieved_answer_adds_reward_only_for_a_good_format_and_an_incorrect_answer():
    reward = Reward(answer="second", format_rule="search_r1", incorrect_good_format=0.2, retrieved=0.1)
    assert reward(text(GOOD % "Rhine")) == pytest.approx(0.3)
    assert reward(text(GOOD % "Nile")) == 1.0
    assert reward(text("<information>Nile</information> <answer>Rhine</answer>")) == 0.0


def test_search_r1_skips_the_first_block_as_the_example_of_its_prompt():
    assert REWARDS["search_r1"](text("<answer>Nile</answer>", prompt="")) == 0.0
    assert REWARDS["em"](text("<answer>Nile</answer>", prompt="")) == 1.0


def test_pica_requires_the_answer_at_the_end():
    assert REWARDS["pica"](text("<answer>Nile</answer>  \n")) == 1.0
    assert REWARDS["pica"](text("<answer>Nile</answer> done")) == -1.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<think>b</think>", ""),
        ('{"name": "search", "arguments": {"query": ["q"]}}', "search q"),
        ('"arguments"', '"parameters"'),
        ("<tool_response>x</tool_response>", ""),
        ("</answer>", "</answer> and more"),
    ],
)
def test_egrpo_gives_no_reward_for_any_deviation_from_its_format(before, after):
    assert REWARDS["egrpo"](text(CALLS)) == 1.0
    assert REWARDS["egrpo"](text(CALLS.replace(before, after))) == 0.0


def test_a_judge_replaces_the_metric():
    asked = []

    def judge(question, golden, answer):
        asked.append((question, golden, answer))
        return 0.5

    transcript = Transcript("<answer>it</answer>", ("Nile",), question="Which river?")
    assert Reward(judge=judge)(transcript) == 0.5
    assert asked == [("Which river?", ("Nile",), "it")]
    with pytest.raises(ConfigError, match=r"score in \[0, 1\]"):
        Reward(judge=lambda *_: 2.0)(transcript)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: named_reward("picca"), "did you mean 'pica'"),
        (lambda: Reward(metric="exact"), "unknown answer metric"),
        (lambda: Reward(format_rule="searchr1"), "did you mean 'search_r1'"),
        (lambda: Reward(answer="lst"), "did you mean 'last'"),  # type: ignore[arg-type]  # the wrong value is the test
    ],
)
def test_wrong_names_suggest_the_near_one(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@given(st.text(alphabet="<>/ansewrthik ", max_size=80))
def test_any_text_has_a_reward_in_its_range(response):
    for name, reward in REWARDS.items():
        assert -1.0 <= reward(text(response)) <= 1.0, name
    for form in FORMAT_RULES.values():
        assert form(text(response)).reason


@given(st.lists(st.sampled_from(["<answer>", "</answer>", "a", " ", "\n", "<think>", "</think>"]), max_size=12))
def test_blocks_and_answers_are_those_that_a_pattern_finds(pieces: list[str]) -> None:
    text = "".join(pieces)
    pattern = re.compile(r"<(answer|think)>(.*?)</\1>", re.DOTALL)
    matches = [(match[1], match[2], match.start(), match.end()) for match in pattern.finditer(text)]
    assert list(blocks(text, "answer", "think")) == matches
    answers = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    last = re.search(r"<answer>((?:(?!</answer>).)*)</answer>\s*\Z", text, re.DOTALL)
    transcript = Transcript(text, ())
    assert last_answer(transcript) == (answers[-1].strip() if answers else None)
    assert final_answer(transcript) == (last.group(1).strip() if last else None)
