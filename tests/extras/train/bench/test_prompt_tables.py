"""Tables of tasks for language models: rules and snapshots agree, prompts are the agent's own, errors name the remedy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import simulate
from helpers.models.tiny_language import tiny_agent
from helpers.worlds.gridworlds import register_grids
from hypothesis import given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.agents.base import View
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.prompts import Prompt
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, OracleLimitError
from creditflow.train.bench.language_model.evaluate import table_values
from creditflow.train.bench.language_model.tables import PromptTable, enumerated_table, prompt_table
from creditflow.wrappers.invalid_actions import Policy
from creditflow.wrappers.recorder import Recorder

register_grids()

COUNTING = Prompt("counting-v1", "", "start {observation}", "", "{step} of {steps}: {cells}")


def sokoban(seed: int = 0, **options: Any) -> AgentEnv[Any, Any, Any]:
    generator = {"height": 5, "width": 5, "boxes": 1, "min_length": 1, "max_length": 6}
    env: Any = creditflow.make("sokoban", **{"generator": generator, "max_steps": 6, **options}).unwrapped
    env.reset(seed=seed)
    base: AgentEnv[Any, Any, Any] = env
    return base


def agent_with(template: Prompt | None = None, **prompting: Any) -> LanguageModelAgent:
    agent, _ = tiny_agent(0, 2, **prompting)
    if template is not None:
        agent.conversations.prompt = template
    return agent


def by_state(table: PromptTable) -> dict[tuple[str, bytes], Any]:
    """A table in a form that does not depend on the numbering of its states; states in which no one acts have no row."""
    mdp = table.mdp
    names: list[Any] = [(key, prompt.tobytes()) for key, prompt in zip(mdp.keys, table.prompts, strict=False)]
    names += [(key, score, success) for key, score, success in
              zip(mdp.keys[mdp.size :], mdp.terminal_score, mdp.terminal_success, strict=True)]  # fmt: skip
    depth = {names[mdp.start]: 0}
    rows: dict[Any, Any] = {}
    queue = [mdp.start]
    for state in queue:
        rows[names[state]] = [names[i] for i in mdp.next_states[state, :, 0]], mdp.limit_score[state]
        for after in mdp.next_states[state, :, 0].tolist():
            if after < mdp.size and names[after] not in depth and depth[names[state]] + 1 < mdp.horizon:
                depth[names[after]] = depth[names[state]] + 1
                queue.append(after)
    return rows


def policy_of(table: PromptTable, seed: int) -> Any:
    """A policy that depends on prompts alone, so that it is the same in every table of a task; float64 (S, A)."""
    rows = [np.random.default_rng([seed, *ids.tolist()]).random(len(table.mdp.actions)) for ids in table.prompts]
    return np.array(rows) / np.sum(rows, axis=1, keepdims=True)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000), kind=st.sampled_from(["sokoban", "coordinates", "grid_coordinates"]),
    prompt=st.sampled_from(["terse-v1", "places-v1"]), policy=st.sampled_from(["keep", "penalise", "terminate"]),
)  # fmt: skip
def test_rules_and_snapshots_give_the_same_table(seed: int, kind: str, prompt: str, policy: Policy) -> None:
    env: Any = sokoban(seed, text_format=kind if "coordinates" in kind else "grid")
    agent = agent_with(prompt=prompt)
    fast = prompt_table(agent, env, env.task, invalid_actions=policy)
    slow = enumerated_table(agent, env, env.task, invalid_actions=policy)
    assert fast.mdp.actions == slow.mdp.actions
    assert fast.mdp.invalid == slow.mdp.invalid == len(fast.actions)
    a, b = by_state(fast), by_state(slow)
    if policy != "terminate":  # the names of format ends differ
        assert a == b
    one, other = (asdict(table_values(table.mdp, policy_of(table, seed))) for table in (fast, slow))
    assert one == pytest.approx(other)
    assert {name: row[1] for name, row in a.items()} == {name: row[1] for name, row in b.items()}


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), counting=st.booleans())
def test_an_episode_in_the_environment_has_the_states_and_prompts_of_the_table(seed: int, counting: bool) -> None:
    env = sokoban(seed)
    agent = agent_with(COUNTING if counting else None)
    table = prompt_table(agent, env, env.task)
    mdp, rng = table.mdp, np.random.default_rng(seed)
    played = Recorder(env, texts=True)
    observation, info = played.reset(options={"task": dict(env.task.content)})
    state = mdp.start
    while True:
        view = View(observation, info, played.turns, env, rng)
        assert mdp.keys[state] == info["state_key"]
        np.testing.assert_array_equal(table.prompts[state], agent.conversations.build_prompt(view).ids)
        action = int(rng.integers(len(mdp.actions)))
        text = "nonsense" if action == mdp.invalid else mdp.actions[action]
        observation, _, terminated, truncated, info = played.step(text)
        state = int(mdp.next_states[state, action, 0])
        assert terminated == (state >= mdp.size)
        if terminated:
            assert mdp.terminal_success[state - mdp.size] == info["success"]
        if terminated or truncated:
            return


def test_prompts_that_show_the_step_number_make_a_state_of_every_step() -> None:
    env = sokoban(1)
    plain, counted = (prompt_table(agent_with(p), env, env.task) for p in (None, COUNTING))
    assert counted.mdp.size > plain.mdp.size
    assert len(set(counted.mdp.keys)) == len(set(plain.mdp.keys))
    group = simulate(counted.mdp, np.full((1, counted.mdp.size, 5), 0.2), 8, np.random.default_rng(0))[0]
    assert set(group.arrays.states.keys) <= set(plain.mdp.keys)  # schemes see the environment's states


def test_invalid_turns_of_simulated_groups_are_marked() -> None:
    env = sokoban(3)
    table = prompt_table(agent_with(), env, env.task)
    [group] = simulate(table.mdp, np.full((1, table.mdp.size, 5), 0.2), 16, np.random.default_rng(0))
    invalid = np.array([a == "(invalid action)" for a in group.arrays.actions])[group.arrays.action]
    assert invalid.any()
    np.testing.assert_array_equal(group.arrays.valid, ~invalid)
    np.testing.assert_array_equal(group.arrays.parsed, ~invalid)
    assert not group.arrays.effective[invalid].any()
    for trajectory in group.trajectories:
        assert all(turn.valid == (turn.action != "(invalid action)") for turn in trajectory.turns)


@pytest.mark.parametrize(
    ("prompting", "policy", "message"),
    [
        ({"history": "append"}, "keep", "history: append"),
        ({"prompt": "think-v1", "window": 2}, "keep", "last 2 turns .* prompting.window: 0"),
        ({"prompt": "think-v1"}, "keep", "'think-v1' quotes rejected actions"),
        ({}, "retry", "undoes invalid turns"),
    ],
)
def test_prompts_that_are_not_a_function_of_the_state_are_rejected(
    prompting: dict[str, Any], policy: Policy, message: str
) -> None:
    env = sokoban()
    with pytest.raises(ConfigError, match=message):
        prompt_table(agent_with(**prompting), env, env.task, invalid_actions=policy)


@pytest.mark.parametrize("name", ["webshop", "wikisearch"])
def test_environments_with_free_text_actions_are_rejected(name: str) -> None:
    env: Any = creditflow.make(name).unwrapped
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=f"{name} cannot be tabulated: some of its actions are free text"):
        prompt_table(agent_with(), env, env.task)


def test_turns_of_several_moves_are_rejected_by_name() -> None:
    env = sokoban(moves_per_turn=3)
    with pytest.raises(ConfigError, match=r"sokoban with moves_per_turn=3 cannot be tabulated.*moves_per_turn=1"):
        prompt_table(agent_with(), env, env.task)


def test_too_many_states_name_the_option_and_long_prompts_the_limit() -> None:
    env = sokoban()
    for table in (prompt_table, enumerated_table):
        with pytest.raises(OracleLimitError, match="more than 2 states"):
            table(agent_with(), env, env.task, max_states=2)
    with pytest.raises(ConfigError, match="does not fit: of max_context 5, 3 tokens are left"):
        prompt_table(agent_with(max_context=5), env, env.task)


def test_a_stochastic_environment_is_rejected() -> None:
    env: Any = creditflow.make("grid-slip", count=1).unwrapped
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="is stochastic"):
        prompt_table(agent_with(), env, env.task)
