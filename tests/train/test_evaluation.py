"""Figures of an evaluation: pass@k and intervals against known values."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from creditflow.agents.scripted import ExpertAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.rewards import REWARDS
from creditflow.train.engine import Arena
from creditflow.train.evaluation import clustered_interval, evaluate, pass_at_k, wilson_interval
from creditflow.wrappers.group_env import GroupEnv


def test_pass_at_k_is_the_share_of_k_subsets_with_a_success() -> None:
    for successes in range(6):
        outcomes = [1] * successes + [0] * (5 - successes)
        for k in range(1, 6):
            exact = np.mean([any(subset) for subset in combinations(outcomes, k)])
            assert pass_at_k(np.array([successes]), 5, k)[0] == pytest.approx(exact)


def test_pass_at_k_needs_k_samples() -> None:
    with pytest.raises(ConfigError):
        pass_at_k(np.array([1]), 2, 3)


def test_wilson_interval_has_known_values_and_stays_in_range() -> None:
    assert wilson_interval(0, 10)[0] == 0.0
    assert wilson_interval(0, 10)[1] == pytest.approx(0.2775, abs=1e-4)
    assert wilson_interval(10, 10)[1] == pytest.approx(1.0)
    assert wilson_interval(10, 10)[1] <= 1.0


def test_clustered_interval_widens_with_spread() -> None:
    narrow, wide = clustered_interval(np.array([0.4, 0.5, 0.6])), clustered_interval(np.array([0.0, 0.5, 1.0]))
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]


def test_rewards_of_transcripts_are_means_over_the_judged_episodes() -> None:
    world = {"articles": 400, "questions": 3, "seed": 3}
    arena = Arena(lambda: GroupEnv("wikisearch", size=1, world=world, dialect="search_r1"))
    source = WikiSearchEnv(world=world).tasks
    tasks = [source.get(task_id) for task_id in source.task_ids()]
    rewards = {name: REWARDS[name] for name in ("em", "search_r1_format")}
    found = evaluate(arena, ExpertAgent(), None, tasks, samples=0, seed=0, rewards=rewards).summary()
    assert found["reward.em"] == found["greedy"] == 1.0
    assert found["reward.search_r1_format"] == pytest.approx(0.8)  # right, but without think tags
