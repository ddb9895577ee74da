"""Exact evaluation against episodes that the real agent plays in the real environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from creditflow.agents.base import Agent
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.train.bench.language_model.evaluate import evaluate_exactly
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.run.assemble import group_env_factory, make_policy_agent
from creditflow.train.statistics import wilson_interval
from creditflow.train.trainer import Trainer

EPISODES = 20_000


@pytest.fixture
def trained(config: dict[str, Any], trainer_of: Callable[..., Any]) -> Trainer:
    """A run that has imitated a little, so that right, wrong and invalid actions are all likely."""
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


@pytest.mark.parametrize("temperature", [1.0, 1.4])
def test_twenty_thousand_played_episodes_agree_with_the_exact_values(trained: Trainer, temperature: float) -> None:
    env = trained.eval_engine._make_group().members[0].base
    agent = agent_at(trained, temperature)
    exact = evaluate_exactly(agent, trained.tokenizer, env, trained.tasks[:1], temperature=temperature)
    [values] = exact.sampled
    assert 0.05 < values.success < 0.95
    assert values.invalid > 0.01
    episodes = played(trained, agent, EPISODES, seed=4)
    low, high = wilson_interval(sum(one.success for one in episodes), len(episodes))
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
