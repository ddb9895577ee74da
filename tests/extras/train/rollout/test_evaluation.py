"""Figures of an evaluation: pass@k and intervals against known values."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from helpers.models.scripted_model import scripted_model

from creditflow.agents.language_model.react import ReflexionAgent
from creditflow.agents.scripted import ExpertAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.grading.rewards import REWARDS
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.evaluation import (
    Evaluation,
    clustered_interval,
    evaluate,
    measured_tasks,
    pass_at_k,
    played_tasks,
    task_type,
)
from creditflow.train.rollout.score_table import score_rows
from creditflow.train.statistics import rate_interval
from creditflow.wrappers.group_env import GroupEnv


def test_pass_at_k_is_the_fraction_of_k_subsets_with_a_success() -> None:
    for successes in range(6):
        outcomes = [1] * successes + [0] * (5 - successes)
        for k in range(1, 6):
            exact = np.mean([any(subset) for subset in combinations(outcomes, k)])
            assert pass_at_k(np.array([successes]), 5, k)[0] == pytest.approx(exact)


def test_pass_at_k_needs_k_samples() -> None:
    with pytest.raises(ConfigError):
        pass_at_k(np.array([1]), 2, 3)


def test_clustered_interval_widens_with_the_variance() -> None:
    narrow, wide = clustered_interval(np.array([0.4, 0.5, 0.6])), clustered_interval(np.array([0.0, 0.5, 1.0]))
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_equal_tasks_do_not_give_an_interval_of_width_zero(rate: float) -> None:
    low, high = clustered_interval(np.full(4, rate))
    assert (low, high) == pytest.approx(rate_interval(4 * rate, 4))
    assert high - low > 0.4


def test_transcript_rewards_are_means_over_the_reported_episodes() -> None:
    world = {"articles": 400, "questions": 3, "seed": 3}
    engine = RolloutEngine(lambda: GroupEnv("wikisearch", size=1, world=world, dialect="search_r1"))
    source = WikiSearchEnv(world=world).tasks
    tasks = [source.get(task_id) for task_id in source.task_ids()]
    rewards = {name: REWARDS[name] for name in ("em", "search_r1_format")}
    result = evaluate(engine, ExpertAgent(), None, tasks, samples=0, seed=0, rewards=rewards)
    found = result.summary()
    assert {name: values.shape for name, values in result.task_rewards.items()} == dict.fromkeys(rewards, (len(tasks),))
    assert found["reward.em"] == found["greedy"] == 1.0
    assert found["reward.search_r1_format"] == pytest.approx(0.8)  # right, but without think tags


def test_trials_end_with_success_and_are_counted() -> None:
    def answer(text: str) -> str:
        if "has failed" in text:
            return "go right instead"
        return "Thought: t\nAction: " + ("right" if "- go right instead" in text else "left")

    level = "#######\n#@ $ .#\n#######"
    engine = RolloutEngine(lambda: GroupEnv("sokoban", size=1, level=level, max_steps=3))
    tasks = [engine._make_group().tasks.sample(np.random.default_rng(0))]
    agent = ReflexionAgent(scripted_model(answer))
    [played] = played_tasks(engine, agent, agent, tasks, samples=2, seed=0, trials=3)
    found = measured_tasks(tasks, [played], samples=2, trials=3)
    assert found.solved_by_trial == (0.0, 1.0, 1.0)
    assert found.summary()["sampled"] == found.summary()["greedy"] == 1.0
    assert [[(member.trial, member.replica) for member in group.trajectories] for group in played] == [
        [(trial, replica) for replica in range(3)] for trial in range(2)
    ]


def test_several_trials_need_an_agent_that_reflects() -> None:
    engine = RolloutEngine(lambda: GroupEnv("sokoban", size=1))
    with pytest.raises(ConfigError, match="reflexion:hf:PATH"):
        evaluate(engine, ExpertAgent(), None, [engine._make_group().tasks.sample(np.random.default_rng(0))],
                 samples=0, seed=0, trials=2)  # fmt: skip


def test_success_by_task_type_is_the_mean_of_its_tasks() -> None:
    found = Evaluation(
        task_ids=("a", "b", "c"), greedy=np.array([True, False, False]), sampled=np.array([2, 0, 1]), samples=2, turns=1.0,
        invalid_fraction=0.0, errors=0, success_rates=np.array([1.0, 0.0, 0.5]), scores=np.array([1.0, 0.2, 0.6]),
        types=("pick", "clean", "pick"),
    )  # fmt: skip
    kinds = {row.name: row for row in score_rows(found)}
    assert (kinds["pick"].success.mean, kinds["pick"].tasks) == (0.75, 2)
    assert (kinds["clean"].success.low, kinds["clean"].success.high) == (0.0, 1.0)
    assert found.summary()["score"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("env", "typed"), [("alfworld", True), ("wikisearch", True), ("sokoban", False), ("webshop", False)]
)
def test_tasks_have_the_types_of_their_environment(env: str, typed: bool) -> None:
    source = GroupEnv(env, size=1, panel="standard-v1:valid").tasks
    types = {task_type(source.get(task_id)) for task_id in source.task_ids()[:20]}
    assert ("" not in types) is typed
