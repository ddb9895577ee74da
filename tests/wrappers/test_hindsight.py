"""Shaping of batches whose episodes begin and end anywhere: one version per episode, and what the batch itself has shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.worlds.shaped_sokoban import play
from helpers.worlds.sokoban_vector import sokoban_vector

from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.sokoban import SokobanEnv
from creditflow.wrappers import FeatureStore, PotentialStore, VectorDenseReward, relabel
from creditflow.wrappers.dense_reward import make_store
from creditflow.wrappers.feature_potential import ObservationFeatures
from creditflow.wrappers.hindsight import RolloutShaping

LEVEL = "#####\n#@$.#\n#   #\n#####"
OPTIONS: dict[str, Any] = {"level": LEVEL, "max_steps": 6, "obs_mode": "planes", "action_mode": "discrete"}
ENVS = 4


class Rollouts:
    """Random steps of a vector environment, entered into a ``RolloutShaping``."""

    def __init__(self, shaping: RolloutShaping, seed: int = 0) -> None:
        self.envs = sokoban_vector(ENVS, autoreset_mode="SameStep", **OPTIONS)
        self.shaping, self.rng = shaping, np.random.default_rng(seed)
        shaping.begin_all(*self.envs.reset(seed=seed))

    def batch(self, steps: int) -> tuple[Any, Any]:
        """Shaping and ends of some steps, both (T, N)."""
        ends = []
        for _ in range(steps):
            actions = self.rng.integers(0, 4, ENVS)
            obs, rewards, terminated, truncated, infos = self.envs.step(actions)
            ends.append(terminated | truncated)
            self.shaping.step_all(actions, obs, rewards, terminated, truncated, infos)
        return self.shaping.shaping(), np.array(ends)


@pytest.mark.parametrize("truncation", ["end", "bootstrap"])
@pytest.mark.parametrize("scheme", ["gigpo", "hgpo", "features"])
def test_with_a_fixed_version_it_is_the_wrappers_shaping(scheme: str, truncation: Any) -> None:
    learner = RolloutShaping(ENVS, scheme, gamma=0.9)
    Rollouts(learner, seed=5).batch(60)
    version: Any = learner.store.snapshot()
    chosen: dict[str, Any] = {"gamma": 0.9, "beta": 0.5, "truncation": truncation, "store": version}
    rollouts = Rollouts(RolloutShaping(ENVS, scheme, **chosen))
    wrapped = VectorDenseReward(sokoban_vector(ENVS, autoreset_mode="SameStep", **OPTIONS), scheme, **chosen)
    wrapped.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(4):  # episodes go on from batch to batch
        shaping, _ = rollouts.batch(7)
        expected = [wrapped.step(rng.integers(0, 4, ENVS))[4]["shaping"] for _ in range(7)]
        np.testing.assert_allclose(shaping, expected, atol=1e-12)
        assert shaping.any()


@pytest.mark.parametrize("scheme", ["grouptd", "rewardflow", "features"])
def test_every_episode_telescopes_to_the_first_potential_of_the_version_of_its_first_batch(scheme: str) -> None:
    gamma, size = 0.9, 512
    rollouts = Rollouts(RolloutShaping(ENVS, scheme, gamma=gamma, truncation="end"))
    observation, info = SokobanEnv(**OPTIONS).reset(seed=0)
    first_row = ObservationFeatures(size).begin(observation)
    sums, weights = np.zeros(ENVS), np.ones(ENVS)
    starts: list[float | None] = [None] * ENVS  # Φ of the start of each open episode, by its own version
    nonzero, versions = 0, set[int]()
    for _ in range(12):
        shaping, ends = rollouts.batch(4)
        version: Any = rollouts.shaping.store.snapshot()
        start = version.of(first_row) if scheme == "features" else version.of(info["task_id"], info["state_key"])
        versions.add(version.version)
        for row, over in zip(shaping, ends, strict=True):
            sums += weights * row
            weights *= gamma
            starts = [start or 0.0 if known is None else known for known in starts]
            for number in np.flatnonzero(over).tolist():
                assert sums[number] == pytest.approx(-(starts[number] or 0.0), abs=1e-9)
                starts[number], sums[number], weights[number] = None, 0.0, 1.0
        nonzero += int(np.count_nonzero(shaping))
    assert nonzero > 50
    assert len(versions) > 3


def test_a_success_shapes_its_own_batch_and_whole_episodes_are_those_of_relabel() -> None:
    group = play(0, NoisyExpert(0.3), 6)
    expected = relabel(group.trajectories, "grouptd", gamma=0.9, truncation="end")
    for member, row in zip(group.trajectories, expected, strict=True):
        shaping = RolloutShaping(1, "grouptd", gamma=0.9, truncation="end", store=_seen(group))
        shaping.begin(0, {"task_id": member.task_id, "state_key": member.turns[0].state_key})
        for t, turn in enumerate(member.turns):
            last = t == len(member.turns) - 1
            info = {"task_id": member.task_id, "state_key": turn.next_state_key, "success": member.success}
            shaping.step(0, turn.action, turn.reward, last and member.success, last and not member.success, info)
        rewards = shaping.shaping()[:, 0] + [turn.reward for turn in member.turns]
        np.testing.assert_allclose(rewards, row, atol=1e-12)


def _seen(group: Any) -> Any:
    store: Any = make_store("grouptd", gamma=0.9, window=10)
    store.add([group])
    return store.publish()


def test_an_episode_whose_beginning_was_not_seen_is_shaped_and_not_learned_from() -> None:
    shaping = RolloutShaping(1, "gigpo", gamma=0.9)
    for complete in (False, True):
        shaping.begin(0, {"task_id": "t", "state_key": "a"}, complete=complete)
        shaping.step(0, "go", 1.0, True, False, {"task_id": "t", "state_key": "g", "success": True})
        assert isinstance(shaping.store, PotentialStore)
        assert shaping.store.pending == complete
    assert shaping.shaping().ravel().tolist() == [-1.0, -1.0]


def test_wrong_calls_are_named() -> None:
    shaping = RolloutShaping(2, "gigpo", gamma=0.9)
    with pytest.raises(EpisodeError, match="has no episode"):
        shaping.step(0, "go", 0.0, False, False, {"task_id": "t", "state_key": "a"})
    for number in range(2):
        shaping.begin(number, {"task_id": "t", "state_key": "a"})
    shaping.step(0, "go", 0.0, False, False, {"task_id": "t", "state_key": "b"})
    with pytest.raises(ConfigError, match="equally many"):
        shaping.shaping()
    with pytest.raises(ConfigError, match="would have no effect"):
        RolloutShaping(1, "gigpo", gamma=0.9, store=PotentialStore("gigpo"), window=3)
    with pytest.raises(ConfigError, match="text keys"):
        RolloutShaping(1, "gigpo", gamma=0.9, key="text").begin(0, {"task_id": "t", "state_key": "a"})
    with pytest.raises(ConfigError, match="gamma must lie"):
        RolloutShaping(1, "features", gamma=2.0, store=FeatureStore(discount=0.9))
