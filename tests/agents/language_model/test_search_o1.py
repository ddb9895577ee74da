"""Search-o1 over a scripted model: only what is read in documents enters the chain of reasoning."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest
from helpers.models.scripted_model import ScriptedBackend, scripted_model
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.agents.backends.base import Sampling
from creditflow.agents.base import View
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.search_o1 import MAX_DOCUMENTS, MAX_READING, NOTHING, SearchO1Agent
from creditflow.agents.registry import check_agent
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.rollout import play_group
from creditflow.wrappers.group_env import GroupEnv

WORLD = {"articles": 400, "questions": 3, "seed": 3}
READS = "Documents:\n"


def search_env(dialect: str = "search_r1", size: int = 1, **options: Any) -> tuple[GroupEnv, Task]:
    env = GroupEnv("wikisearch", size=size, world=WORLD, dialect=dialect, **options)
    source = env.tasks
    return env, source.get(source.task_ids()[0])


def asked(model: LanguageModelAgent) -> list[str]:
    assert isinstance(model.backend, ScriptedBackend)
    return model.backend.asked


@pytest.mark.parametrize("dialect", ["plain", "search_r1", "pica", "tool_call"])
def test_documents_are_read_in_a_call_of_their_own_and_only_the_reading_enters_the_chain(dialect: str) -> None:
    env, task = search_env(dialect)
    answer = str(task.content["answers"][0])
    steps = count(1)

    def complete(text: str) -> str:
        if READS in text:
            return "A  fact \n worth knowing."
        step = next(steps)
        return f"thought {step} <search> query {step} </search>" if step < 3 else f"sure <answer> {answer} </answer>"

    model = scripted_model(complete)
    [trajectory] = play_group(env, SearchO1Agent(model), task).trajectories
    assert trajectory.success
    assert [turn.queries for turn in trajectory.turns] == [("query 1",), ("query 2",), ()]
    assert [turn.thought for turn in trajectory.turns] == ["thought 1", "thought 2", "sure"]
    first, read_1, second, read_2, third = asked(model)
    documents = trajectory.turns[1].observation.strip()
    assert len(documents) > 100
    assert documents in read_1
    assert documents not in second + third
    assert "Searched for: query 1" in read_1
    assert "Reasoning so far:\nthought 1\n" in read_1
    assert "thought 1\n<search> query 1 </search>\nFound: A fact worth knowing.\nthought 2\n" in read_2
    assert "Your reasoning so far" not in first
    assert third.count("Found: A fact worth knowing.") == 2
    assert "This is step 3 of at most 10" in third


def test_a_step_without_a_call_is_rejected_and_the_next_step_sees_why() -> None:
    env, task = search_env("plain", max_steps=2)
    model = scripted_model(lambda text: "search: without tags")
    [trajectory] = play_group(env, SearchO1Agent(model), task).trajectories
    assert [turn.valid for turn in trajectory.turns] == [False, False]
    assert trajectory.turns[0].queries == ()
    assert len(asked(model)) == 2  # nothing was found, so nothing is read
    assert "search: without tags\nRefused: no call found" in asked(model)[1]


def test_a_search_beyond_the_budget_is_refused_in_the_chain() -> None:
    env, task = search_env(max_calls=1, max_steps=3)
    model = scripted_model(lambda text: "x" if READS in text else "<search> more </search>")
    play_group(env, SearchO1Agent(model), task)
    assert "Refused: no search any more: all 1 tool calls are used" in asked(model)[-1]


def test_an_empty_reading_says_so_and_a_long_one_is_cut() -> None:
    env, task = search_env(max_steps=3)
    readings = iter(["", "y" * (MAX_READING + 500)])
    model = scripted_model(lambda text: next(readings) if READS in text else "<search> more </search>")
    play_group(env, SearchO1Agent(model), task)
    prompt = asked(model)[-1]
    assert f"Found: {NOTHING}\n" in prompt
    assert "y" * MAX_READING in prompt
    assert "y" * (MAX_READING + 1) not in prompt


def test_a_prompt_that_does_not_fit_ends_the_episode() -> None:
    env, task = search_env()
    question = str(task.content["text"])
    model = scripted_model(lambda text: f"<search> {question} </search>")
    small = LanguageModelAgent(
        model.backend, model.conversations, model.dialect, Sampling(max_new_tokens=8), max_context=1_200
    )
    [trajectory] = play_group(env, SearchO1Agent(small), task).trajectories
    assert trajectory.stop_reason == "token_limit"
    assert len(trajectory.turns) == 1  # the documents do not fit into the reader's prompt


def test_episodes_of_a_batch_do_not_mix_and_a_second_episode_begins_anew() -> None:
    env, task = search_env(size=3, max_steps=3)
    numbers = count(1)
    model = scripted_model(lambda text: "r" if READS in text else f"<search> {next(numbers)} </search>")
    agent = SearchO1Agent(model)
    group = play_group(env, agent, task)
    assert [[turn.queries[0] for turn in one.turns] for one in group.trajectories] == [
        ["1", "4", "7"], ["2", "5", "8"], ["3", "6", "9"]
    ]  # fmt: skip
    last = asked(model)[-3:]
    assert ["<search> 1 </search>" in text for text in last] == [True, False, False]
    play_group(env, agent, task)
    assert "Your reasoning so far" not in asked(model)[15]


def test_a_fork_keeps_the_chain_and_an_episode_that_began_elsewhere_is_refused() -> None:
    env, task = search_env(max_steps=4)
    other, _ = search_env(max_steps=4)
    model = scripted_model(lambda text: "r" if READS in text else "so <search> q </search>")
    agent = SearchO1Agent(model)
    [(observation, info)] = env.reset(task=dict(task.content))
    base, rng = env.members[0].base, np.random.default_rng(0)
    for _ in range(2):
        [decision] = agent.act([View(observation, info, env.members[0].turns, base, rng)])
        step = env.step({0: decision.action})[0]
        observation, info = step.observation, step.info
    other.reset(task=dict(task.content))
    child = other.members[0].base
    turns = env.members[0].turns
    with pytest.raises(ConfigError, match="from its first turn"):
        agent.act([View(observation, info, turns, child, rng)])
    agent.fork(base, child, 2)
    agent.act([View(observation, info, turns, child, rng)])
    assert asked(model)[-1].count("Found: r") == 2
    with pytest.raises(ConfigError, match="cannot fork after turn 9"):
        agent.fork(base, child, 9)


@given(st.text(max_size=60), st.text(max_size=60))
@settings(deadline=None, max_examples=30)
def test_whatever_the_model_writes_slots_are_filled_once(step: str, reading: str) -> None:
    env, task = search_env(max_steps=3)
    model = scripted_model(
        lambda text: f"{{documents}} {reading}" if READS in text else f"{{query}} {step} <search> {{lessons}} </search>"
    )
    [trajectory] = play_group(env, SearchO1Agent(model), task).trajectories
    assert len(trajectory.turns) <= 3
    for text in asked(model):
        assert len(text) < MAX_DOCUMENTS
        if READS in text:
            assert "Question: " + str(task.content["text"]) in text


def test_it_needs_questions_and_a_language_model() -> None:
    with pytest.raises(ConfigError, match="the agent search-o1 answers questions: use --env wikisearch, not sokoban"):
        env = GroupEnv("sokoban", size=1, level="#####\n#@$.#\n#####")
        play_group(
            env,
            SearchO1Agent(scripted_model(lambda text: "x")),
            env.tasks.sample(np.random.default_rng(0)),
        )
    check_agent("search-o1:hf:PATH")
    with pytest.raises(ConfigError, match="write search-o1:hf:PATH"):
        check_agent("search-o1")
    with pytest.raises(ConfigError, match="did you mean 'search-o1'"):
        check_agent("search_o1:hf:x")
