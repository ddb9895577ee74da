"""Gymnasium's vector wrappers, and ``VectorDenseReward`` among them, count what single environments played alone give."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from inspect import getsource
from typing import Any, NamedTuple

import gymnasium as gym
import gymnasium.wrappers.vector as vector_wrappers
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import creditflow
from creditflow.envs import ENVIRONMENTS, env_id
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.vector_dense_reward import VectorDenseReward

MEMBERS, STEPS, LIMIT, SEED = 3, 14, 4, 7
OPTIONS: dict[str, dict[str, Any]] = {
    "sokoban": {"panel": "easy-v1:train"},
    "webshop": {},
    "alfworld": {},
    "wikisearch": {},
}
MODES = list(AutoresetMode)
CASES = [
    *((name, "sync", "dense statistics") for name in ENVIRONMENTS),
    ("sokoban", "async", "statistics dense"),
    ("sokoban", "sync", "statistics"),
    ("sokoban", "sync", "statistics double dense"),
    ("sokoban", "sync", "dense list"),
]


class Episode(NamedTuple):
    """What one episode of a single environment gave."""

    task_id: str
    rewards: list[float]
    first_key: str


class Step(NamedTuple):
    """What a single environment gives in one step of the vector environment."""

    action: str
    reward: float
    observation: Any
    info: dict[str, Any]
    ended: Episode | None


def make(name: str, how: str, mode: AutoresetMode) -> Any:
    options = {"max_steps": LIMIT, **OPTIONS[name]}
    settings: dict[str, Any] = {"autoreset_mode": mode} | ({"shared_memory": False} if how == "async" else {})
    return gym.make_vec(env_id(name), MEMBERS, vectorization_mode=how, vector_kwargs=settings, **options)


def alone(name: str, number: int, mode: AutoresetMode) -> Iterator[Step]:
    """Play one member alone, with a random action of a list or a wrong one."""
    env = creditflow.make(name, max_steps=LIMIT, **OPTIONS[name])
    rng = np.random.default_rng(number)
    observation, info = env.reset(seed=SEED + number)
    episode, waiting = Episode(info["task_id"], [], info["state_key"]), False
    while True:
        choices = ["wrong", *info["admissible_actions"]]
        action = choices[rng.integers(len(choices))]
        if waiting and mode == AutoresetMode.NEXT_STEP:
            observation, info = env.reset()
            episode, waiting = Episode(info["task_id"], [], info["state_key"]), False
            yield Step(action, 0.0, observation, info, None)
            continue
        observation, reward, terminated, truncated, info = env.step(action)
        episode.rewards.append(float(reward))
        ended = episode if terminated or truncated else None
        if ended is not None and mode != AutoresetMode.NEXT_STEP:
            observation, info = env.reset()
            episode = Episode(info["task_id"], [], info["state_key"])
        waiting = ended is not None
        yield Step(action, float(reward), observation, info, ended)


def stacked(env: Any, names: str) -> Any:
    """Wrap a vector environment, the innermost first."""
    layers: dict[str, Callable[[Any], Any]] = {
        "statistics": vector_wrappers.RecordEpisodeStatistics,
        "dense": lambda inner: VectorDenseReward(inner, "grouptd", gamma=1.0),
        "double": lambda inner: vector_wrappers.TransformReward(inner, lambda rewards: 2.0 * rewards),
        "list": vector_wrappers.DictInfoToList,
    }
    for name in names.split():
        env = layers[name](env)
    return env


@pytest.mark.parametrize("mode", MODES, ids=[mode.value for mode in MODES])
@pytest.mark.parametrize(("name", "how", "stack"), CASES, ids=["-".join(case) for case in CASES])
def test_statistics_rewards_infos_and_shaping_are_those_of_single_environments(name, how, stack, mode):
    # Gymnasium's loops take reset_mask out of the options, so that its statistics outside of them begin all members again
    forgets = mode == AutoresetMode.DISABLED
    # and its older statistics do not know of this mode
    forgets |= mode == AutoresetMode.SAME_STEP and "SAME_STEP" not in getsource(vector_wrappers.RecordEpisodeStatistics)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = stacked(make(name, how, mode), stack)
        try:
            counted = agrees(envs, stack, name, mode, forgets=forgets)
        finally:
            envs.close()
    assert counted >= MEMBERS * 2


def agrees(envs: Any, stack: str, name: str, mode: AutoresetMode, *, forgets: bool) -> int:
    """Play all members next to the single ones; returns the number of episodes that ended."""
    members = [alone(name, number, mode) for number in range(MEMBERS)]
    envs.reset(seed=SEED)
    counted, shaped = 0, np.zeros(MEMBERS)
    for _ in range(STEPS):
        steps = [next(member) for member in members]
        observations, rewards, terminations, truncations, infos = envs.step([step.action for step in steps])
        over = terminations | truncations
        assert over.tolist() == [step.ended is not None for step in steps]
        if mode == AutoresetMode.DISABLED and over.any():
            observations, begun = envs.reset(options={"reset_mask": over.copy()})
            assert present(begun, "task_id", over) == [step.info["task_id"] for step in steps if step.ended]
        assert (rewards.dtype, rewards.shape) == (np.float64, (MEMBERS,))
        assert list(observations) == [step.observation for step in steps]
        if mode != AutoresetMode.DISABLED:
            everyone = np.ones(MEMBERS, dtype=bool)
            for key in ("task_id", "state_key", "elapsed_steps"):
                assert present(infos, key, everyone) == [step.info[key] for step in steps]
        earned = np.array([step.reward for step in steps])
        shaping = np.zeros(MEMBERS)
        if "dense" in stack:
            shaping = np.array(present(infos, "shaping", np.ones(MEMBERS, dtype=bool)))
            factor = 2.0 if "double" in stack else 1.0
            assert np.allclose(rewards, factor * earned + shaping, atol=1e-12)
        shaped += shaping
        ended = [step.ended for step in steps if step.ended is not None]
        counted += len(ended)
        if ended and "statistics" in stack and not forgets:
            statistics = present(infos, "episode", over)
            lengths, returns = [int(one["l"]) for one in statistics], [float(one["r"]) for one in statistics]
            assert lengths == [len(episode.rewards) for episode in ended]
            extra = shaped[over] if stack == "dense statistics" else np.zeros(len(ended))
            assert np.allclose(returns, [sum(episode.rewards) for episode in ended] + extra, atol=1e-9)
        shaped[over] = 0.0
    return counted


def present(infos: Any, key: str, which: np.ndarray[Any, Any]) -> list[Any]:
    """Values of an info of these members, whatever form the infos have."""
    numbers = np.flatnonzero(which).tolist()
    if isinstance(infos, list):
        return [infos[number][key] for number in numbers]
    column = infos[key]
    if isinstance(column, dict):
        return [{name: values[number] for name, values in column.items()} for number in numbers]
    return [column[number] for number in numbers]


def test_infos_in_a_list_are_refused_with_the_reason():
    envs: Any = creditflow.make_vec("sokoban", 2, **OPTIONS["sokoban"])
    shaped: Any = VectorDenseReward(vector_wrappers.DictInfoToList(envs), "grouptd", gamma=1.0)
    with pytest.raises(ConfigError, match="DictInfoToList outside"):
        shaped.reset(seed=0)


def test_features_of_a_dictionary_observation_are_learned_from():
    envs: Any = creditflow.make_vec("sokoban", 2, obs_mode="dict", max_steps=LIMIT, **OPTIONS["sokoban"])
    shaped: Any = VectorDenseReward(envs, "features", gamma=1.0)
    shaped.reset(seed=0)
    for _ in range(2 * LIMIT):
        shaped.step(("up", "down"))
    assert shaped.freeze().version > 0


def test_infos_without_tasks_are_refused_with_what_is_missing():
    shaped: Any = VectorDenseReward(gym.make_vec("CartPole-v1", 2), "grouptd", gamma=1.0)
    with pytest.raises(ConfigError, match="task_id"):
        shaped.reset(seed=0)
