"""The potential over features: what it reads, that it generalises to tasks it has not seen, and that it telescopes."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.episodes.builders import walk
from helpers.worlds.shaped_sokoban import play, sokoban
from helpers.worlds.sokoban_vector import sokoban_vector

from creditflow.agents.base import View
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.sokoban import SokobanEnv
from creditflow.wrappers import (
    DenseReward,
    FeaturePotentials,
    FeatureStore,
    ForeignEnv,
    VectorDenseReward,
    content_key,
    relabel,
)
from creditflow.wrappers.feature_potential import ObservationFeatures

PLANES: dict[str, Any] = {"obs_mode": "planes", "action_mode": "discrete", "grid_shape": [6, 6]}


def learned(panel: str, episodes: int, **options: Any) -> tuple[Any, FeaturePotentials]:
    """An environment with the potential that a noisy expert's episodes give, each of another task."""
    inner = gym.make("creditflow/Sokoban-v0", panel=panel, max_steps=30, **options)
    env: Any = DenseReward(inner, "features", gamma=0.97, publish_every=50)
    agent, rng = NoisyExpert(0.5), np.random.default_rng(0)
    tasks = env.unwrapped.tasks.task_ids()[:episodes]
    assert len(set(tasks)) == episodes
    for task in tasks:
        observation, info = env.reset(options={"task_id": task})
        over = False
        while not over:
            [decision] = agent.act([View(observation, info, (), env.unwrapped, rng)])
            observation, _, terminated, truncated, info = env.step(decision.action)
            over = terminated or truncated
    env.store.publish()
    return env, env.freeze()


def test_it_values_the_states_of_levels_that_nobody_has_played() -> None:
    _, version = learned("small-v1:train", 120)
    env: Any = DenseReward(
        gym.make("creditflow/Sokoban-v0", panel="small-v1:test", max_steps=30), "features", gamma=0.97, store=version
    )
    rng, potentials, values = np.random.default_rng(1), list[float](), list[float]()
    for task in env.unwrapped.tasks.task_ids()[:60]:
        _, info = env.reset(options={"task_id": task})
        over = False
        while not over:
            distance = env.unwrapped.oracle.distance(env.unwrapped.get_state())
            potentials.append(info["potential"])
            values.append(0.97**distance)  # 0 where success is out of reach
            _, _, terminated, truncated, info = env.step(("up", "down", "left", "right")[rng.integers(4)])
            over = terminated or truncated
    assert np.corrcoef(potentials, values)[0, 1] > 0.4


def test_a_table_of_states_says_nothing_about_tasks_that_are_seen_once() -> None:
    shaped = {"grouptd": 0, "features": 0}
    for scheme in shaped:
        env: Any = DenseReward(gym.make("creditflow/Sokoban-v0", panel="small-v1:train"), scheme, gamma=0.97)
        agent, rng = NoisyExpert(0.2), np.random.default_rng(0)
        for task in env.unwrapped.tasks.task_ids()[:12]:
            observation, info = env.reset(options={"task_id": task})
            over = False
            while not over:
                [decision] = agent.act([View(observation, info, (), env.unwrapped, rng)])
                observation, _, terminated, truncated, info = env.step(decision.action)
                shaped[scheme] += info["shaping"] != 0.0
                over = terminated or truncated
    assert shaped["grouptd"] == 0
    assert shaped["features"] > 20


def test_texts_that_differ_in_a_word_of_the_task_have_the_same_features() -> None:
    rows = []
    for thing in ("tomato", "mug"):
        features = ObservationFeatures(512)
        features.begin(f"Your task is to: heat a {thing}.")
        rows.append(features.row(f"You pick up the {thing} 1."))
    assert rows[0].tolist() == rows[1].tolist()
    features = ObservationFeatures(512)
    features.begin("Your task is to: heat a mug.")
    assert features.row("You pick up the tomato 1.").tolist() != rows[1].tolist()


@pytest.mark.parametrize("options", [{}, PLANES])
def test_a_level_that_is_shifted_has_the_same_features(options: dict[str, Any]) -> None:
    boards = ("######\n#    #\n#@ $.#\n#    #\n#    #\n######", "######\n#    #\n#    #\n#@ $.#\n#    #\n######")
    rows = []
    for board in boards:
        observation, _ = SokobanEnv(level=board, **options).reset(seed=0)
        rows.append(ObservationFeatures(512).begin(observation))
    assert rows[0].tolist() == rows[1].tolist()
    other, _ = SokobanEnv(level=boards[0].replace("@ $", "@$ "), **options).reset(seed=0)
    assert ObservationFeatures(512).begin(other).tolist() != rows[0].tolist()


def test_versions_do_not_depend_on_the_order_of_episodes_and_forget_old_ones() -> None:
    rng = np.random.default_rng(0)
    episodes = [(list(rng.normal(size=(4, 8))), [0.0, 0.0, 0.0, float(n % 2)]) for n in range(6)]
    forwards, backwards = FeatureStore(discount=0.9, size=8), FeatureStore(discount=0.9, size=8)
    for rows, rewards in episodes:
        forwards.observe(rows, rewards)
    for rows, rewards in episodes[::-1]:
        backwards.observe(rows, rewards)
    assert forwards.publish().digest == backwards.publish().digest
    fresh = FeatureStore(discount=0.9, size=8, window=1)
    for rows, rewards in episodes:
        fresh.observe(rows, rewards)
        fresh.publish()
    alone = FeatureStore(discount=0.9, size=8, window=1)
    alone.observe(*episodes[-1])
    np.testing.assert_allclose(fresh.snapshot().weights, alone.publish().weights)


def test_the_weights_are_those_of_ridge_regression_on_discounted_returns() -> None:
    rng = np.random.default_rng(1)
    rows, rewards = rng.normal(size=(3, 4)), [1.0, 0.0, 2.0]
    store = FeatureStore(discount=0.5, size=4, ridge=2.0)
    store.observe(list(rows), rewards)
    version = store.publish()
    returns = np.array([1.5, 1.0, 2.0])  # 1 + .5 (0 + .5 · 2), 0 + .5 · 2, 2
    stacked = np.concatenate([rows, np.sqrt(2.0) * np.eye(4)])
    expected = np.linalg.lstsq(stacked, np.concatenate([returns, np.zeros(4)]), rcond=None)[0]
    np.testing.assert_allclose(version.weights, expected)
    assert version.of(1e6 * version.weights) == 2.0  # at most the greatest return that was seen
    assert version.of(-1e6 * version.weights) == 0.0


def test_a_copy_gives_the_same_reward_again() -> None:
    _, version = learned("small-v1:train", 30)
    env = DenseReward(gym.make("creditflow/WebShop-v0"), "features", gamma=0.9, store=version)
    _, info = env.reset(seed=0)
    env.step(info["admissible_actions"][0])
    base: Any = env.unwrapped
    action = base.oracle.optimal_actions(base.get_state())[0]
    copied = copy.deepcopy(env)
    first = env.step(action)
    assert copied.step(action)[1] == first[1]
    assert first[4]["shaping"] != 0.0


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_rewards_of_vectors_are_those_of_the_wrapper_around_each_environment(mode: str) -> None:
    _, version = learned("small-v1:train", 40, **PLANES)
    options: dict[str, Any] = {"panel": "small-v1:test", "max_steps": 8, **PLANES}
    chosen: dict[str, Any] = {"gamma": 0.97, "truncation": "bootstrap", "store": version}
    native = VectorDenseReward(sokoban_vector(4, autoreset_mode=mode, **options), "features", **chosen)
    loop = SyncVectorEnv(
        [lambda: DenseReward(SokobanEnv(**options), "features", **chosen)] * 4, autoreset_mode=AutoresetMode(mode)
    )
    native.reset(seed=4)
    loop.reset(seed=4)
    rng, shaped = np.random.default_rng(1), 0
    for _ in range(30):
        actions = rng.integers(0, 4, 4)
        ours, theirs = native.step(actions), loop.step(actions)
        np.testing.assert_allclose(ours[1], theirs[1], atol=1e-12)
        shaped += int(np.count_nonzero(ours[4]["shaping"]))
    assert shaped > 60


def test_a_vector_environment_learns_it() -> None:
    envs = sokoban_vector(16, autoreset_mode="SameStep", level="#####\n#@$.#\n#   #\n#####", max_steps=8, **PLANES)
    shaped = VectorDenseReward(envs, "features", gamma=0.97, publish_every=16)
    shaped.reset(seed=0)
    rng, total = np.random.default_rng(0), 0
    for _ in range(40):
        total += int(np.count_nonzero(shaped.step(rng.integers(0, 4, 16))[4]["shaping"]))
    assert total > 100
    assert shaped.freeze().version >= 2


def test_hindsight_rewards_are_those_of_the_wrapper_with_the_same_version() -> None:
    group = play(0, NoisyExpert(0.5), 6)
    store = FeatureStore(discount=0.9)
    rewards = relabel(group.trajectories, "features", gamma=0.9, store=store)
    shaped = 0
    for member, row in zip(group.trajectories, rewards, strict=True):
        env = DenseReward(sokoban(), "features", gamma=0.9, store=store.snapshot())
        env.reset(seed=0)
        assert [env.step(turn.action)[1] for turn in member.turns] == pytest.approx(row.tolist(), abs=1e-12)
        shaped += int(np.count_nonzero(row - [turn.reward for turn in member.turns]))
    assert shaped > 10


@pytest.mark.parametrize("change", ["value", "cut", "format"])
def test_a_changed_file_is_rejected(change: str, tmp_path: Any) -> None:
    _, version = learned("small-v1:train", 10)
    path = tmp_path / "potential.json"
    version.save(path)
    loaded = FeaturePotentials.load(path)
    assert (loaded.digest, loaded.version) == (version.digest, version.version)
    text = path.read_text()
    changed = {"value": text.replace("0.", "1.", 1), "cut": text[: len(text) // 2], "format": '{"format": "x"}'}[change]
    path.write_text(changed)
    with pytest.raises(DataError):
        FeaturePotentials.load(path)


SPACES = {
    "Discrete": spaces.Discrete(9, start=-4), "MultiDiscrete": spaces.MultiDiscrete([3, 4]), "MultiBinary": spaces.MultiBinary(5),
    "Box": spaces.Box(-np.inf, np.inf, (4,)), "numbers": spaces.Box(0, 255, (6, 7), np.uint8), "Text": spaces.Text(12),
    "pixels": spaces.Box(0, 255, (5, 5, 3), np.uint8), "Dict": spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,))),
    "Tuple": spaces.Tuple([spaces.Discrete(5), spaces.Text(6)]), "Sequence": spaces.Sequence(spaces.Discrete(7)),
    "stacked": spaces.Sequence(spaces.Box(0, 1, (2,)), stack=True),
    "Graph": spaces.Graph(spaces.Box(-1, 1, (3,)), spaces.Discrete(4)),
    "OneOf": spaces.OneOf([spaces.Discrete(3), spaces.Box(0, 1, (2,))]),
}  # fmt: skip


@pytest.mark.parametrize("name", SPACES)
def test_observations_of_every_space_have_features_and_states_that_tell_them_apart(name: str) -> None:
    space = SPACES[name]
    space.seed(5)
    seen = [space.sample() for _ in range(12)]
    keys = [content_key(observation) for observation in seen]
    rows = [ObservationFeatures(512).begin(observation) for observation in seen]
    assert len(set(keys)) > 2
    for i, j in itertools.combinations(range(12), 2):
        if keys[i] == keys[j]:
            assert np.array_equal(rows[i], rows[j])
    assert len({row.tobytes() for row in rows}) > 2
    assert all(row[0] == 1.0 and np.linalg.norm(row[1:]) < 2.0 for row in rows)


@pytest.mark.parametrize("name", SPACES)
def test_vectors_of_every_space_are_shaped_as_single_environments_are(name: str) -> None:
    class Seen(gym.Env[Any, Any]):
        observation_space, action_space = SPACES[name], spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.observation_space = copy.deepcopy(SPACES[name])
            self.observation_space.seed(seed)
            self.left = 4
            return self.observation_space.sample(), {}

        def step(self, action):
            self.left -= 1
            return self.observation_space.sample(), float(action), self.left == 0, False, {}

    single: Any = [DenseReward(Seen(), "features", gamma=0.9) for _ in range(2)]
    vector = VectorDenseReward(
        SyncVectorEnv([lambda: ForeignEnv(Seen(), success="none")] * 2), "features", gamma=0.9, store=single[0].store
    )
    for _ in range(3):
        single[0].reset(seed=3)
        for action in (1, 0, 1, 1):
            single[0].step(action)
    single[0].store.publish()
    single[0].freeze()
    expected = [single[0].reset(seed=3)[1]["potential"], *(single[0].step(a)[4]["shaping"] for a in (1, 0, 1, 1))]
    vector.reset(seed=[3, 4])
    shaping = [vector.step(np.array([a, a]))[4]["shaping"][0] for a in (1, 0, 1, 1)]
    assert np.allclose(shaping, expected[1:], atol=1e-12)
    assert any(shaping)


def test_what_has_no_features_is_refused() -> None:
    with pytest.raises(ConfigError, match="no effect"):
        DenseReward(sokoban(), "features", gamma=0.9, key="text")
    with pytest.raises(ConfigError, match="no paper has them"):
        DenseReward(sokoban(), "features", gamma=0.9, terminal="paper")
    with pytest.raises(ConfigError, match="texts, numbers, arrays, mappings and sequences"):
        ObservationFeatures(64).row({"x": (1, object())})
    with pytest.raises(ConfigError, match="size must be"):
        FeatureStore(discount=0.9, size=1)
    with pytest.raises(DataError, match="texts=True"):
        relabel([walk("s a g")], "features", gamma=0.9)
