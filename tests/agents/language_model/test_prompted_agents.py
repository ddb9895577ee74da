"""ReAct and Reflexion over a scripted model: their prompts, actions and reflections."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from helpers.models.scripted_model import ScriptedBackend, scripted_model

from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.react import ReactAgent, ReflexionAgent
from creditflow.agents.registry import check_agent, make_agent
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.rollout import play_group
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

LINE = "#######\n#@ $ .#\n#######"  # three moves to the right
WORLD = {"articles": 400, "questions": 3, "seed": 3}


def asked(model: LanguageModelAgent) -> list[str]:
    assert isinstance(model.backend, ScriptedBackend)
    return model.backend.asked


def play(agent: ReactAgent, env: GroupEnv, group_id: str | None = None) -> Group:
    return play_group(env, agent, env.tasks.sample(np.random.default_rng(0)), group_id=group_id)


def search_env(dialect: str) -> tuple[GroupEnv, Task]:
    env = GroupEnv("wikisearch", size=1, world=WORLD, dialect=dialect)
    source = env.tasks
    return env, source.get(source.task_ids()[0])


def test_react_writes_thoughts_beside_actions_in_one_conversation() -> None:
    model = scripted_model(lambda text: "Thought: the way is free\nAction: right")
    group = play(ReactAgent(model), GroupEnv("sokoban", size=1, level=LINE))
    [trajectory] = group.trajectories
    assert trajectory.success
    assert [turn.thought for turn in trajectory.turns] == ["the way is free"] * 3
    prompts = asked(model)
    assert "Possible actions:\nup\ndown\nleft\nright" in prompts[0]
    assert all(later.startswith(earlier) for earlier, later in pairwise(prompts))


def test_a_completion_in_another_format_is_rejected_with_the_reason() -> None:
    agent = ReactAgent(scripted_model(lambda text: "right"))
    env = GroupEnv("sokoban", size=1, level=LINE, max_steps=1)
    [(observation, info)] = env.reset(seed=0)
    from creditflow.agents.base import View

    [decision] = agent.act([View(observation, info, (), env.members[0].base, np.random.default_rng(0))])
    assert decision.invalid_reason.startswith("there is no line that begins with Thought:")


def test_react_searches_without_seeing_the_list_that_names_answers() -> None:
    env, task = search_env("plain")
    answer = str(task.content["answers"][0])
    model = scripted_model(lambda text: f"Thought: known\nAction: answer: {answer}")
    [trajectory] = play_group(env, ReactAgent(model), task).trajectories
    assert trajectory.success
    assert answer not in asked(model)[0]


def test_reflections_reach_the_next_trial_of_their_task_only_and_the_last_three_are_shown() -> None:
    notes = iter(["note 1", "note 2", "note 3", "note 4"])

    def answer(text: str) -> str:
        return next(notes) if "has failed" in text else "Thought: t\nAction: left"

    model = scripted_model(answer)
    agent = ReflexionAgent(model)
    env = GroupEnv("sokoban", size=1, level=LINE, max_steps=2)
    for trial in range(4):
        [failed] = play(agent, env, f"trial {trial}").trajectories
        assert agent.reflect([failed]) == [f"note {trial + 1}"]
    reflection = next(text for text in asked(model) if "has failed" in text)
    assert "done: left" in reflection
    assert "env_limit" in reflection
    before = len(asked(model))
    play(agent, env, "last")
    prompt = asked(model)[before]
    assert "- note 2\n- note 3\n- note 4" in prompt
    assert "note 1" not in prompt
    before = len(asked(model))
    play(agent, GroupEnv("sokoban", size=1, level=LINE.replace("@ ", " @"), max_steps=2), "other task")
    assert "note" not in asked(model)[before]


def test_every_reflection_has_random_numbers_of_its_own_and_the_same_again() -> None:
    first = Trajectory("one", "one", "task a", (), False, 0.0, "env_limit", "end")
    failed = [
        replace(first, task_id=task, trial=trial, replica=replica, seed=seed)
        for task in ("task a", "task b")
        for trial in (0, 1)
        for replica in (0, 1)
        for seed in (0, 1)
    ]

    def drawn(order: list[Trajectory]) -> dict[tuple[object, ...], bytes]:
        model = scripted_model(lambda text: "note")
        keys = []
        for seed, iteration in product((0, 1), (0, 1)):
            ReflexionAgent(model).reflect(order, seed=seed, iteration=iteration)
            keys += [(seed, iteration, one.task_id, one.trial, one.replica, one.seed) for one in order]
        assert isinstance(model.backend, ScriptedBackend)
        return {key: uniforms.tobytes() for key, uniforms in zip(keys, model.backend.uniforms, strict=True)}

    numbers = drawn(failed)
    assert len(set(numbers.values())) == len(numbers) == 64
    assert drawn(failed[::-1]) == numbers


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("raect:hf:x", "did you mean 'react'"),
        ("react", "write react:hf:PATH"),
        ("react:reflexion:hf:x", "write react:hf:PATH"),
        ("react:noisi", "did you mean 'noisy'"),
    ],
)
def test_wrong_agent_names_are_errors_before_anything_is_opened(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_agent(spec)


def test_a_scripted_agent_cannot_be_prompted() -> None:
    with pytest.raises(ConfigError, match="which 'random' is not"):
        make_agent("react:random")
