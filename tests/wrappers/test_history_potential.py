"""GDCR online: the shaping of ``DenseReward`` equals the scheme's step rewards on the recorded trajectory."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import creditflow
from creditflow import credit
from creditflow.agents import NoisyExpert
from creditflow.envs.errors import ConfigError
from creditflow.train.rollout import play_group
from creditflow.wrappers import DenseReward, Group, GroupEnv, PotentialStore, Recorder
from creditflow.wrappers.credit import CreditError

WORLD = {"articles": 300, "questions": 20, "seed": 7}


def wiki(**settings: Any) -> Any:
    return creditflow.make("wikisearch", world=WORLD, **settings)


def shaped(gamma: float = 1.0, terminal: Any = "paper", settings: Any = None, **parameters: Any) -> DenseReward:
    return DenseReward(wiki(**(settings or {})), "gdcr", gamma=gamma, terminal=terminal, **parameters)


class Watched(DenseReward):
    """``DenseReward`` that stores the shaping of every step."""

    def step(self, action: Any) -> Any:
        outcome = super().step(action)
        self.shapings = [*getattr(self, "shapings", []), outcome[4]["shaping"]]
        return outcome


class Thinking(NoisyExpert):
    """An expert whose thought repeats the observation, so that there are citations."""

    def act(self, views: Any) -> Any:
        return [
            replace(decision, thought=f"I have read: {view.observation}")
            for decision, view in zip(super().act(views), views, strict=True)
        ]


@pytest.mark.parametrize("dialect", ["plain", "search_r1", "pica", "tool_call"])
@pytest.mark.parametrize("options", [{}, {"observations": "entities"}, {"decay": 3.0, "directed": True}])
def test_online_rewards_are_the_step_rewards_of_the_recorded_trajectory(dialect: str, options: Any) -> None:
    env = GroupEnv(
        lambda: Watched(wiki(dialect=dialect, max_steps=4), "gdcr", gamma=1.0, terminal="paper", **options), size=4
    )
    tasks = env.tasks
    some, cited = 0.0, 0.0
    for task_id in tasks.task_ids()[:4]:
        for member in env.members:
            member.env.env.shapings = []  # type: ignore[attr-defined]  # Recorder, InvalidActions, Watched
        group = play_group(env, Thinking(0.5), tasks.get(task_id))
        scored = credit.make("gdcr", **options).assign(group)
        for member, rewards in zip(env.members, scored.step_rewards, strict=True):
            assert member.env.env.shapings == pytest.approx(rewards.tolist(), abs=1e-12)  # type: ignore[attr-defined]  # as above
        some += sum(rewards.sum() for rewards in scored.step_rewards)
        cited += scored.diagnostics["cite_reward"].sum()
    assert some > 0.0
    assert cited > 0.0


def test_thoughts_around_the_call_are_read_online_and_recorded() -> None:
    env = Recorder(shaped(settings={"dialect": "search_r1"}))
    _, info = env.reset(seed=3)
    names = [entity["name"] for entity in env.base.task.content["entities"]]
    total = 0.0
    for name in (names[0], names[0], names[-1]):
        *_, info = env.step(f"<think>About {', '.join(names)}</think> <search>{name}</search>")
        total += info["shaping"]
    env.stop("env_error")
    group = Group((env.trajectory,), dict(env.base.task.content))
    scored = credit.make("gdcr").assign(group)
    assert env.trajectory.turns[1].thought.strip() == f"About {', '.join(names)}"
    assert scored.diagnostics["cite_reward"].sum() > 0.0
    # the text after the turn at which a rollout is stopped is not in the log; what the environment recorded is
    assert total == pytest.approx(scored.flat_step_rewards.sum())


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_with_zero_terminal_potential_the_discounted_sum_does_not_depend_on_the_path(gamma: float) -> None:
    env = shaped(gamma=gamma, terminal="zero")
    for seed in range(6):
        _, info = env.reset(seed=5)
        rng, total, t, done = np.random.default_rng(seed), 0.0, 0, False
        while not done:
            actions = info["admissible_actions"]
            _, _, terminated, truncated, info = env.step(actions[int(rng.integers(len(actions)))])
            total += gamma**t * info["shaping"]
            t, done = t + 1, terminated or truncated
        assert total == pytest.approx(0.0, abs=1e-12)


def test_a_copy_has_the_entities_seen_and_cited() -> None:
    env = shaped()
    _, _ = env.reset(seed=3)
    first = env.unwrapped.task.content["entities"][0]["name"]  # type: ignore[attr-defined]  # AgentEnv
    env.step(f"search: {first}")
    again = copy.deepcopy(env)
    *_, info = env.step(f"I know {first}\nsearch: {first}")
    *_, other = again.step(f"I know {first}\nsearch: {first}")
    assert other["shaping"] == info["shaping"] > 0.0


def test_a_task_without_an_entity_graph_is_rejected_at_reset() -> None:
    env = DenseReward(creditflow.make("sokoban", level="#####\n#@$.#\n#####"), "gdcr", gamma=1.0)
    with pytest.raises(CreditError, match=r"gdcr is not applicable to task .*: the task lacks 'entities'"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": PotentialStore("rewardflow")}, "would have no effect"),
        ({"unknown": "zero"}, "would have no effect"),
        ({"step_weight": 2.0, "std_eps": 0.1}, "gdcr does not depend on std_eps, step_weight, so leave it out"),
        ({"decays": 2.0}, "did you mean 'decay'"),
    ],
)
def test_options_of_learned_potentials_are_rejected(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DenseReward(wiki(), "gdcr", gamma=1.0, **options)
