"""GRPO on examples small enough to work out by hand; every expected number is derived beside it."""

from __future__ import annotations

from math import sqrt

import numpy as np
from helpers.episodes.builders import group, walk
from helpers.episodes.worked import near

from creditflow import credit


def test_grpo_is_the_return_in_sample_deviations_from_the_mean():
    # returns 3, 1, 2: mean 2, sample variance (1 + 1 + 0)/2 = 1
    g = group(
        walk("s a", "failed", reward=3.0), walk("s a b c", "failed", reward=1.0), walk("s x", "failed", reward=2.0)
    )
    c = credit.make("grpo").assign(g)
    near(c.outcome_advantages, [1.0, -1.0, 0.0])
    near(c.advantages, [[1.0], [-1.0, -1.0, -1.0], [0.0]])
    near(c.step_rewards, [[0.0], [0.0] * 3, [0.0]])


def test_grpo_weighs_trajectories_equally_and_the_released_code_weighs_turns():
    # four successes of 10 turns, four failures of 50, rewards 10/0
    g = group(
        *[walk([f"{i}.{t}" for t in range(11)], reward=10.0, name=f"w{i}") for i in range(4)],
        *[walk([f"{i}.{t}" for t in range(51)], "failed", name=f"l{i}") for i in range(4, 8)],
    )
    # mean 5, sample variance 8·25/7
    near(credit.make("grpo").assign(g).outcome_advantages, [5 / sqrt(200 / 7)] * 4 + [-5 / sqrt(200 / 7)] * 4)
    # rows: 40 tens, 200 zeros; mean 5/3; sum of squares 40 (25/3)² + 200 (5/3)²
    deviation = sqrt((40 * (25 / 3) ** 2 + 200 * (5 / 3) ** 2) / 239)
    released = credit.make("grpo", semantics="release").assign(g).outcome_advantages
    np.testing.assert_allclose(released, [25 / 3 / deviation] * 4 + [-5 / 3 / deviation] * 4, rtol=1e-6)
    np.testing.assert_allclose(released[[0, -1]], [2.23, -0.446], rtol=1e-2)


def test_grpo_without_std_is_the_distance_from_the_mean():
    g = group(walk("s g", reward=1.0), walk("s x", "failed"), walk("s x", "failed"))
    near(credit.make("grpo", outcome_scale="none").assign(g).outcome_advantages, [2 / 3, -1 / 3, -1 / 3])
