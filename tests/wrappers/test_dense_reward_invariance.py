"""When reward shaping preserves optimal policies: sums along paths, greedy policies, versions of the potential."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.worlds.shaped_sokoban import ACTIONS, fixed_potential, mdp, play, random_potential, sokoban, task_id
from hypothesis import given
from hypothesis import strategies as st

from creditflow.agents.scripted import ExpertAgent
from creditflow.wrappers.dense_reward import DenseReward
from creditflow.wrappers.potentials import Potentials, PotentialStore


def episode(env, rng, after_each=lambda: None):
    """Discounted sum of the shaping along one random path, and Φ of the start."""
    _, info = env.reset(seed=0)
    start, total, weight = info["potential"], 0.0, 1.0
    while True:
        _, _, terminated, truncated, info = env.step(ACTIONS[rng.integers(4)])
        total += weight * info["shaping"]
        weight *= env.gamma
        after_each()
        if terminated or truncated:
            return total, start


@given(seed=st.integers(0, 10**6), gamma=st.floats(0.5, 1.0), unknown=st.sampled_from(["carry", "zero"]))
def test_shaping_sums_to_minus_the_start_on_every_path(seed, gamma, unknown):
    version = random_potential(seed)
    values = dict(version.values[task_id()])
    for key in list(values)[:: 1 + seed % 3]:  # some states are unknown
        del values[key]
    env = DenseReward(sokoban(), "rewardflow", gamma=gamma, store=Potentials(1, {task_id(): values}), unknown=unknown)
    total, start = episode(env, np.random.default_rng(seed))
    assert total == pytest.approx(-start, abs=1e-9)


@given(seed=st.integers(0, 10**6))
def test_publishing_during_an_episode_does_not_change_its_potential(seed):
    store = PotentialStore("rewardflow")
    store.add([play(0)])
    store.publish()
    env = DenseReward(sokoban(), "rewardflow", gamma=0.97, store=store)
    news = iter(range(1, 100))
    versions = []

    def learn():
        store.add([play(next(news) % 4, size=2)])
        store.publish()
        versions.append(env.potentials.version)

    total, start = episode(env, np.random.default_rng(seed), learn)
    assert total == pytest.approx(-start, abs=1e-9)
    assert set(versions) == {1}
    assert env.reset(seed=0)[1]["potential_version"] == store.snapshot().version > 1


def shaped_action_values(gamma, seed, **options):
    """Q* of the shaped task, by value iteration over the wrapper's rewards."""
    states = mdp()
    version = random_potential(seed)
    env = DenseReward(sokoban(max_steps=1000), "rewardflow", gamma=gamma, store=version, **options)
    env.reset(seed=0)
    there = {states.keys[0]: env}
    rewards = np.zeros((states.size, 4))
    for state in range(states.size):
        for action in range(4):
            moved = copy.deepcopy(there[states.keys[state]])
            _, reward, _, _, info = moved.step(ACTIONS[action])
            rewards[state, action] = reward
            there.setdefault(info["state_key"], moved)
    value = np.zeros(len(states.keys))
    for _ in range(3000):
        q = rewards + gamma * value[states.next_states[:, :, 0]]
        value[: states.size] = q.max(axis=1)
    return states, q


def optimal_action_values(mdp, discount, tolerance=1e-12):
    """Q*_γ without a turn limit, (S, A), by value iteration."""
    value = np.concatenate([np.zeros(mdp.size), mdp.terminal_score])
    while True:
        q = (mdp.transition_probs * value[mdp.next_states]).sum(axis=2)
        best = discount * q.max(axis=1)
        if np.abs(best - value[: mdp.size]).max() <= tolerance:
            return q
        value[: mdp.size] = best


def greedy(q, tolerance=1e-7):
    return q >= q.max(axis=1, keepdims=True) - tolerance


@pytest.mark.parametrize("seed", range(4))
def test_no_potential_changes_the_greedy_policy(seed):
    states, shaped = shaped_action_values(0.9, seed)
    np.testing.assert_array_equal(greedy(shaped), greedy(optimal_action_values(states, 0.9)))


def test_with_the_optimal_value_as_potential_the_reward_is_the_optimal_advantage():
    gamma, states = 0.9, mdp()
    q = optimal_action_values(states, gamma)
    value = q.max(axis=1)
    env = DenseReward(sokoban(), "rewardflow", gamma=gamma, store=fixed_potential(value))
    rng = np.random.default_rng(0)
    for _ in range(20):
        _, info = env.reset(seed=0)
        done = False
        while not done:
            state, action = states.index[info["state_key"]], int(rng.integers(4))
            _, reward, done, truncated, info = env.step(ACTIONS[action])
            if truncated:
                break
            assert reward == pytest.approx(q[state, action] - value[state], abs=1e-9)


def shaped_return(store, terminal, actions):
    env = DenseReward(sokoban(), "rewardflow", gamma=1.0, store=store, terminal=terminal)
    env.reset(seed=0)
    total = 0.0
    for action in actions:
        _, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        if terminated or truncated:
            break
    return total


def test_a_terminal_potential_that_is_not_zero_can_change_the_optimum():
    # Φ is 3 in the start state alone: waiting there until the limit gets 3 more than solving, unless the terminal potential is zero
    values = np.zeros(mdp().size)
    values[0] = 3.0
    store = fixed_potential(values)
    solve = [turn.action for turn in play(0, ExpertAgent()).trajectories[0].turns]
    wait = ["up"] * 12
    assert shaped_return(store, "zero", solve) > shaped_return(store, "zero", wait)
    assert shaped_return(store, "paper", solve) < shaped_return(store, "paper", wait)


def test_paper_shaping_rewards_arriving_at_success():
    store = PotentialStore("rewardflow", discount=0.9)
    store.add([play(0, ExpertAgent())])
    store.publish()
    sums = {}
    for terminal in ("zero", "paper"):
        env = DenseReward(sokoban(), "rewardflow", gamma=1.0, store=store, terminal=terminal)
        _, info = env.reset(seed=0)
        start, total = info["potential"], 0.0
        for turn in play(0, ExpertAgent()).trajectories[0].turns:
            info = env.step(turn.action)[4]
            total += info["shaping"]
        sums[terminal] = total
        assert info["success"]
    assert sums["zero"] == pytest.approx(-start)
    assert sums["paper"] == pytest.approx(1.0 - start)
