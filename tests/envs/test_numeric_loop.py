"""Any numeric library can step ``obs_mode="grid"``: a linear softmax policy in plain NumPy learns on it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

LEVEL = "#######\n#@ $ .#\n#######"


def episode(env, weights, rng):
    """One sampled episode: features, actions, return."""
    obs, _ = env.reset(seed=0)
    features, actions, total = [], [], 0.0
    over = False
    while not over:
        x = np.eye(7)[obs.astype(int).ravel()].ravel()
        logits = x @ weights
        probabilities = np.exp(logits - logits.max())
        action = int(rng.choice(4, p=probabilities / probabilities.sum()))
        features.append(x)
        actions.append(action)
        obs, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        over = terminated or truncated
    return np.array(features), np.array(actions), total


def test_reinforce_on_grid_observations_learns_to_solve_a_level():
    env = gym.make("creditflow/Sokoban-v0", obs_mode="grid", action_mode="discrete", level=LEVEL, max_steps=8)
    assert isinstance(env.observation_space, gym.spaces.Box)
    assert isinstance(env.action_space, gym.spaces.Discrete)
    rng = np.random.default_rng(0)
    weights = np.zeros((int(np.prod(env.observation_space.shape)) * 7, 4))
    untrained = np.mean([episode(env, weights, rng)[2] for _ in range(60)])
    baseline = 0.0
    for _ in range(150):
        x, actions, total = episode(env, weights, rng)
        logits = x @ weights
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        weights += 0.05 * (total - baseline) * x.T @ (np.eye(4)[actions] - probabilities)
        baseline += 0.1 * (total - baseline)
    assert np.mean([episode(env, weights, rng)[2] for _ in range(60)]) > 0.95 > untrained + 0.2
