"""Exact evaluation agrees with episodes that the agent plays in the environment."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.tiny_language import tiny_agent

import creditflow
from creditflow.agents.base import Agent
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.envs.errors import ConfigError, OracleLimitError
from creditflow.train.bench.language_model.evaluate import evaluate_exactly
from creditflow.train.bench.language_model.policy import ExactPolicy
from creditflow.train.bench.language_model.tables import prompt_table
from creditflow.train.commands import eval as command
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.run.assemble import make_policy_agent
from creditflow.train.statistics import rate_interval
from creditflow.train.trainer import Trainer


@pytest.fixture
def trained(config: dict[str, Any], trainer_of: Callable[..., Any]) -> Trainer:
    """A run after a short SFT, so that optimal, other and invalid actions all have a sizeable probability."""
    config["prompting"] |= {"prompt": "terse-v1", "history": "window", "window": 0}
    run: Trainer = trainer_of(config, "sft.steps=30", "update.iterations=0", "env.options.max_steps=3")
    run.run()
    return run


def agent_at(run: Trainer, temperature: float) -> LanguageModelAgent:
    return make_policy_agent(run.settings, run.backend, run.tokenizer, temperature=temperature)


def played(run: Trainer, agent: Agent, episodes: int, seed: int) -> list[Any]:
    """Episodes of the first task, 1,000 at a time."""
    engine = RolloutEngine(group_env_factory(run.settings.env, min(1000, episodes), texts=True))
    rounds = [engine.play(agent, run.tasks[:1], seed=seed, iteration=i)[0] for i in range(max(1, episodes // 1000))]
    return [trajectory for group in rounds for trajectory in group.trajectories]


@pytest.mark.parametrize(("temperature", "count"), [(1.0, 20_000), (1.4, 6000)])
def test_played_episodes_agree_with_the_exact_values(trained: Trainer, temperature: float, count: int) -> None:
    env = trained.eval_engine._make_group().members[0].base
    agent = agent_at(trained, temperature)
    exact = evaluate_exactly(agent, trained.tokenizer, env, trained.tasks[:1], temperature=temperature)
    [values] = exact.sampled
    assert 0.05 < values.success < 0.95
    assert values.invalid > 0.01
    episodes = played(trained, agent, count, seed=4)
    low, high = rate_interval(sum(one.success for one in episodes), len(episodes))
    assert low <= values.success <= high
    for name, counts in (("turns", [len(one.turns) for one in episodes]),
                         ("invalid", [sum(not turn.valid for turn in one.turns) for one in episodes])):  # fmt: skip
        half = 1.96 * np.std(counts, ddof=1) / np.sqrt(len(counts))
        assert abs(np.mean(counts) - getattr(values, name)) <= half, name


def test_greedy_values_are_those_of_the_greedy_episode(trained: Trainer) -> None:
    env = trained.eval_engine._make_group().members[0].base
    agent = agent_at(trained, 0.0)
    exact = evaluate_exactly(agent, trained.tokenizer, env, trained.tasks)
    groups = trained.eval_engine.play(agent, trained.tasks, seed=0)
    assert [one.success for one in exact.greedy] == [group.trajectories[0].success for group in groups]
    assert [one.turns for one in exact.greedy] == [len(group.trajectories[0].turns) for group in groups]


def replies(env: Any, task_id: str) -> list[str]:
    """The observation of a house's initial state, and those after each of its actions; all of them twice."""
    first, info = env.reset(options={"task_id": task_id})
    texts = [first]
    for action in info["admissible_actions"]:
        env.reset(options={"task_id": task_id})
        texts.append(env.step(action)[0])
    return [*texts, *texts]


def test_a_house_with_other_commands_in_every_state_agrees_with_its_episodes(
    config: dict[str, Any], trainer_of: Callable[..., Any], tmp_path: Path
) -> None:
    panel: Any = creditflow.make("alfworld", panel="standard-v1:valid", max_steps=4).unwrapped
    house = panel.tasks.get("alfworld1:dce8f8430709d538c66424106eb54647")  # the smallest of the panel
    listed, _ = tiny_agent(0, 2)
    listed.max_context = 0
    actions = prompt_table(listed, panel, house).actions
    sizes = ScratchConfig(hidden=64, layers=2, heads=2, kv_heads=1, intermediate=128, vocabulary=900, init=0.1,
                          pattern=r"[^\n.:,]+|.|\n")  # fmt: skip
    tokenizer = build_tokenizer([*actions, *actions, *replies(panel, house.task_id)], sizes)  # a command is a token
    build_model(sizes, tokenizer, seed=0).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    config["model"] = {"path": str(tmp_path / "model")}
    config["env"] = {"name": "alfworld", "options": {"game": dict(house.content), "max_steps": 4}}
    config["prompting"] = {"prompt": "terse-v1", "dialect": "bare", "history": "window", "window": 0}
    config["sft"] |= {"episodes": 60, "steps": 40, "noise": 0.2, "batch_tokens": 1500}
    run: Trainer = trainer_of(config, "update.iterations=0", "rollout.max_new_tokens=2")
    run.run()
    env, agent = run.eval_engine._make_group().members[0].base, agent_at(run, 1.0)
    table = prompt_table(agent, env, run.tasks[0])
    assert not table.mdp.valid[:, :-1].all()  # the commands differ between states
    exact = evaluate_exactly(agent, run.tokenizer, env, run.tasks)
    [values] = exact.sampled
    assert 0.05 < values.success < 0.95
    assert values.invalid > 0.05
    episodes = played(run, agent, 2000, seed=2)
    low, high = rate_interval(sum(one.success for one in episodes), len(episodes))
    assert low <= values.success <= high
    invalid = [sum(not turn.valid for turn in one.turns) for one in episodes]
    assert abs(np.mean(invalid) - values.invalid) <= 1.96 * np.std(invalid, ddof=1) / np.sqrt(len(invalid))
    first = [one.turns[0].action for one in episodes]
    policy = ExactPolicy.of_agent(agent, run.tokenizer, env, table.actions)
    [probabilities] = policy.probabilities([table])
    for action in table.actions:
        expected = probabilities[table.mdp.start, table.actions.index(action)]
        assert abs(first.count(action) / len(first) - expected) <= 4 * np.sqrt(expected / len(first)) + 1e-3


def test_the_command_prints_and_writes_exact_values(
    trained: Trainer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"hf:{trained.settings.out}/model"
    options = [f"--env-set={k}={v}" for k, v in trained.settings.env.options.items()]
    out = tmp_path / "values.jsonl"
    assert call("--exact", "--agent", model, *options, "--device", "cpu", "--json", "--out", str(out)) == 0
    printed = json.loads(capsys.readouterr().out)
    env, agent = trained.eval_engine._make_group().members[0].base, agent_at(trained, 1.0)
    exact = evaluate_exactly(agent, trained.tokenizer, env, [env.tasks.get(i) for i in env.tasks.task_ids()])
    assert printed["sampled"] == pytest.approx(exact.summary()["sampled"], abs=1e-6)
    assert printed["greedy"] == exact.summary()["greedy"]
    assert printed["tasks"] == len(exact.task_ids)
    assert printed["sampled_error_bound"] < 1e-3
    rows = [json.loads(line) for line in out.read_text(encoding="ascii").splitlines()]
    assert [row["task_id"] for row in rows] == list(exact.task_ids)
    assert [row["states"] for row in rows] == list(exact.states)
    assert call("--exact", "--agent", model, *options, "--device", "cpu", "--temperature", "0.5") == 0
    assert "sampled at temperature 0.5" in capsys.readouterr().out


def test_errors_of_the_command_say_what_was_expected(trained: Trainer) -> None:
    model, levels = f"hf:{trained.settings.out}/model", f"--env-set=levels={trained.settings.env.options['levels']}"
    for arguments, message in (
        ([model, levels, "--max-states", "2"], "more than 2 states can be reached; raise the limit .--max-states"),
        ([model, "--env", "webshop", "--panel", "standard-v1:test", "--limit", "1"], "webshop cannot be tabulated"),
        (
            [model, "--env", "wikisearch", "--panel", "standard-v1:test", "--limit", "1"],
            "wikisearch cannot be tabulated",
        ),
        ([model, "--env-set", "generator={}"], "endless task source: name the tasks with a panel"),
        ([model, levels, "--temperature", "0"], "temperature above 0"),
        ([model, levels, "--trials", "2"], "--trials has no effect"),
        ([model, levels, "--samples", "8"], "--samples has no effect"),
        ([model, levels, "--seed", "1"], "--seed has no effect"),
        ([f"react:{model}", levels], "--agent hf:PATH"),
    ):
        with pytest.raises((ConfigError, OracleLimitError), match=message):
            call("--exact", "--device", "cpu", "--agent", *arguments)


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(arguments))
