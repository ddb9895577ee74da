"""The environment: its contract, invalid actions, budgets, state keys and info."""

from typing import Any

import pytest
from helpers.worlds.wikisearch_small import WORLD, small_env

import creditflow
from creditflow.envs import check_agent_env
from creditflow.envs.errors import ConfigError
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.wrappers import InvalidActions, Recorder


def expert_steps(env: WikiSearchEnv, info: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Outcomes of the expert's steps."""
    done, outcomes = False, []
    while not done:
        outcome = env.step(env.oracle.optimal_actions(env.get_state())[0])
        outcomes.append(outcome)
        done = outcome[2] or outcome[3]
    return outcomes


@pytest.mark.parametrize("dialect", ["plain", "search_r1", "pica", "tool_call"])
def test_the_default_keeps_the_contract_in_every_dialect(dialect: str) -> None:
    check_agent_env(creditflow.make("wikisearch", dialect=dialect), steps=40)


@pytest.mark.parametrize(
    "options", [{"max_calls": 2}, {"max_tokens": 300}, {"metric": "f1"}, {"oracle": "proxy"}, {"top_k": 1}]
)
def test_the_contract_holds_under_other_settings(options: dict[str, Any]) -> None:
    env = small_env(**options)
    if options == {"oracle": "proxy"}:  # a proxy suggests calls that are not listed
        env.reset(seed=0)
        assert not env.oracle.exact
        return
    check_agent_env(env, steps=40)


@pytest.mark.parametrize("dialect", ["plain", "search_r1", "tool_call"])
def test_the_expert_gets_the_reward_for_its_answer_only(dialect: str) -> None:
    env = small_env(dialect=dialect)
    _, info = env.reset(seed=1)
    outcomes = expert_steps(env, info)
    assert [outcome[1] for outcome in outcomes] == [0.0] * (len(outcomes) - 1) + [1.0]
    assert outcomes[-1][4]["success"]
    assert outcomes[-1][4]["stop_reason"] == "success"


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("search:", "empty"), ("search: \x00\x1b\u2028 \t", "empty"), ("search: " + "x" * 2_001, "at most"),
        ("search: " + "x" * 1_000_000, "characters"), ("search: " + "|".join("abcdefghijklmnopqrst"), "at most 16"),
        ("search: a | | b", "empty"), ("visit: No Such Page", "no page"), ("look: here", "no call"), ("answer:", "empty"),
        ("search: a\nsearch: b", "one call"),
    ],
)  # fmt: skip
def test_invalid_calls_are_rejected_with_a_reason(action: str, reason: str) -> None:
    env = small_env()
    before, start = env.reset(seed=0)
    after, reward, terminated, _, info = env.step(action)
    assert (after, reward, terminated) == (before, 0.0, False)
    assert reason in info["invalid_reason"]
    assert info["message"] == f"Refused: {info['invalid_reason']}"
    assert (info["state_key"], info["tool_calls"]) == (start["state_key"], 0)


def test_control_characters_in_a_query_are_spaces() -> None:
    env = small_env()
    env.reset(seed=0)
    info = env.step("search: town\x00charter\x1b[2J")[4]
    assert info["queries"] == ("town charter [2J",)


def test_several_queries_in_one_call_cost_one_call() -> None:
    env = small_env()
    env.reset(seed=0)
    _, _, _, _, info = env.step("search: market charter | portrait")
    assert info["queries"] == ("market charter", "portrait")
    assert info["tool_calls"] == 1
    assert 3 < len(info["doc_ids"]) <= 6


def test_the_last_turn_is_announced_and_its_search_is_executed() -> None:
    env = small_env(max_steps=3)
    env.reset(seed=0)
    assert "last turn" not in env.step("search: charter")[0]
    assert "last turn" in env.step("search: portrait")[0]
    text, _, terminated, truncated, info = env.step("search: notebook")
    assert "notebook" in text
    assert info["doc_ids"]
    assert (terminated, truncated, info["stop_reason"]) == (False, True, "env_limit")


def test_a_used_up_tool_budget_is_announced_and_leaves_the_answer() -> None:
    env = small_env(max_calls=1, max_steps=3)
    env.reset(seed=0)
    text, _, _, _, info = env.step("search: charter")
    assert "all 1 tool calls are used" in text
    assert all(action.startswith("answer: ") for action in info["admissible_actions"])
    rejected = env.step("search: portrait")[4]
    assert "give your answer" in rejected["invalid_reason"]
    assert not rejected["doc_ids"]
    assert env.step("search: portrait")[4]["stop_reason"] == "tool_limit"


def test_a_used_up_token_budget_ends_the_tools() -> None:
    env = small_env(max_tokens=50, max_steps=2)
    env.reset(seed=0)
    _, _, _, _, info = env.step("search: charter")
    assert info["tool_tokens"] >= 50
    assert "tokens" in env.step("search: portrait")[4]["invalid_reason"]
    assert env._info(True, True, False, "")["stop_reason"] == "token_limit"


def test_picas_dialect_announces_the_limit_with_the_published_text() -> None:
    env = small_env(dialect="pica", max_calls=1)
    env.reset(seed=0)
    text = env.step("<search> charter </search>")[0]
    assert text.startswith("\n\n<information>Doc 1(Title: ")
    assert "no longer call <search></search>" in text


def test_the_state_key_is_the_set_of_evidence() -> None:
    env = small_env()
    keys = []
    for actions in (["search: charter", "search: portrait"], ["search: portrait", "noise", "search: charter"]):
        env.reset(seed=0)
        for action in actions:
            info = env.step(action)[4]
        keys.append((info["state_key"], info["admissible_actions"]))
        again = env.step(actions[-1])[4]
        assert again["state_key"] == info["state_key"]
        assert not again["action_effective"]
    assert keys[0] == keys[1]


def test_the_state_key_does_not_depend_on_the_budget() -> None:
    found = set()
    for options in ({"max_steps": 5}, {"max_calls": 7}, {"max_tokens": 10_000}, {}):
        env = small_env(**options)
        env.reset(seed=0)
        found.add(env.step("search: charter")[4]["state_key"])
    assert len(found) == 1


def test_questions_of_two_tasks_have_different_state_keys() -> None:
    env = small_env()
    keys = {env.reset(options={"task_id": task})[1]["state_key"] for task in env.tasks.task_ids()}
    assert len(keys) == len(env.tasks.task_ids())


def test_a_visit_shows_the_rest_of_a_page() -> None:
    env = small_env()
    env.reset(seed=0)
    info = env.step("search: charter")[4]
    page = next(action for action in info["admissible_actions"] if action.startswith("visit: "))
    after = env.step(page)[4]
    assert len(after["doc_ids"]) > 1
    assert len({name.rpartition("-")[0] for name in after["doc_ids"]}) == 1


def test_the_recorder_stores_entities_queries_and_documents() -> None:
    env = Recorder(InvalidActions(creditflow.make("wikisearch", world=WORLD)), oracle=True)
    env.reset(seed=1)
    base = env.base
    while not env.finished:
        env.step(base.oracle.optimal_actions(base.get_state())[0])
    turns = env.trajectory.turns
    assert all(turn.queries and turn.doc_ids for turn in turns if turn.action.startswith("search"))
    names = {entity["name"] for entity in base.task.content["entities"]}
    assert {name for turn in turns for name in turn.entities} <= names
    assert base.task.content["answer_node"] in {name for turn in turns for name in turn.entities}
    distances = [turn.values["distance.oracle"] for turn in turns]
    assert distances == list(range(len(turns), 0, -1))


def test_the_environments_stop_reason_reaches_the_trajectory() -> None:
    env = Recorder(InvalidActions(creditflow.make("wikisearch", world=WORLD, max_calls=1, max_steps=2)))
    env.reset(seed=1)
    env.step("search: charter")
    env.step("search: charter")
    assert env.trajectory.stop_reason == "tool_limit"


@pytest.mark.parametrize(
    "options",
    [
        {"dialect": "latin"}, {"metric": "bleu"}, {"top_k": 0}, {"max_calls": -1}, {"max_tokens": 0}, {"oracle": "perfect"},
        {"world": {"articles": 10}}, {"world": {"size": 300}}, {"world": {"articles": "many"}}, {"world": None, "panel": "none-v1"},
        {"panel": "standard-v1"}, {"corpus": "x"}, {"world": None, "questions": "q.jsonl"}, {"judge": {"model": "m"}}, {"judge": 3},
        {"world": None, "questions": "q.jsonl", "retriever": 3}, {"world": None, "questions": "q.jsonl", "retriever": {"url": 3}},
        {"world": None, "questions": "q.jsonl", "retriever": {"url": "http://x", "timeout": "1"}},
        {"world": None, "questions": "q.jsonl", "retriever": {"url": "http://x", "path": 3}},
        {"max_steps": 0}, {"world": {"articles": 200, "questions": 100_000}},
    ],
)  # fmt: skip
def test_wrong_arguments_are_configuration_errors(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        small_env(**options)
