"""When a dense reward is sound, exactly: sums along paths, optimal policies, versions of the potential."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import creditflow
from creditflow.agents.scripted import ExpertAgent, NoisyExpert
from creditflow.envs.errors import ConfigError, DataError, EpisodeError
from creditflow.envs.sokoban.levels import parse_level
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.sokoban_mdp import sokoban_mdp
from creditflow.train.bench.exact.values import optimal_action_values
from creditflow.train.rollout import play_group
from creditflow.wrappers.dense_reward import DenseReward, require_unshaped
from creditflow.wrappers.graphs.potentials import Potentials, PotentialStore
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.invalid_actions import InvalidActions
from creditflow.wrappers.trajectory import Group

LEVEL = "#######\n#@ $ .#\n#     #\n#######"
ACTIONS = ("up", "down", "left", "right")


def sokoban(max_steps=12):
    return creditflow.make("sokoban", level=LEVEL, max_steps=max_steps)


def task_id():
    env = sokoban()
    return str(env.reset(seed=0)[1]["task_id"])


def table(horizon=40) -> FiniteMDP:
    return sokoban_mdp(parse_level(LEVEL), horizon)


def fixed(values, version=1, goal=1.0) -> Potentials:
    """A given Φ by number of state."""
    mdp = table()
    return Potentials(version, {task_id(): dict(zip(mdp.keys[: mdp.size], map(float, values), strict=True))}, goal)


def drawn(seed, low=-2.0, high=2.0) -> Potentials:
    return fixed(np.random.default_rng(seed).uniform(low, high, table().size), goal=float(seed % 7))


def group(seed=0, agent: Any = None, size=6) -> Group:
    env = GroupEnv("sokoban", size=size, level=LEVEL, max_steps=12)
    task = env.members[0].base.tasks.get(task_id())
    return play_group(env, agent or NoisyExpert(0.5), task, seed=seed)


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
    version = drawn(seed)
    values = dict(version.values[task_id()])
    for key in list(values)[:: 1 + seed % 3]:  # some states are unknown
        del values[key]
    env = DenseReward(sokoban(), "rewardflow", gamma=gamma, store=Potentials(1, {task_id(): values}), unknown=unknown)
    total, start = episode(env, np.random.default_rng(seed))
    assert total == pytest.approx(-start, abs=1e-9)


@given(seed=st.integers(0, 10**6))
def test_updates_of_the_store_in_the_middle_of_an_episode_change_nothing_of_it(seed):
    store = PotentialStore("rewardflow")
    store.add([group(0)])
    store.publish()
    env = DenseReward(sokoban(), "rewardflow", gamma=0.97, store=store)
    news = iter(range(1, 100))
    versions = []

    def learn():
        store.add([group(next(news) % 4, size=2)])
        store.publish()
        versions.append(env.potentials.version)

    total, start = episode(env, np.random.default_rng(seed), learn)
    assert total == pytest.approx(-start, abs=1e-9)
    assert set(versions) == {1}
    assert env.reset(seed=0)[1]["potential_version"] == store.snapshot().version > 1


def shaped_action_values(gamma, seed, **options):
    """Q* of the shaped task, by value iteration over rewards that the wrapper itself pays."""
    mdp = table()
    version = drawn(seed)
    env = DenseReward(sokoban(max_steps=1000), "rewardflow", gamma=gamma, store=version, **options)
    base: Any = env.unwrapped
    env.reset(seed=0)
    snapshots = {mdp.keys[0]: base.get_state()}
    rewards = np.zeros((mdp.size, 4))
    for state in range(mdp.size):
        inner = snapshots[mdp.keys[state]]
        held = version.of(task_id(), mdp.keys[state])
        for action in range(4):
            env.set_state(json.dumps({"format": "dense/1", "env": inner, "potential": held}))
            _, reward, _, _, info = env.step(ACTIONS[action])
            rewards[state, action] = reward
            snapshots.setdefault(info["state_key"], base.get_state())
    value = np.zeros(len(mdp.keys))
    for _ in range(3000):
        q = rewards + gamma * value[mdp.next_states[:, :, 0]]
        value[: mdp.size] = q.max(axis=1)
    return mdp, q


def greedy(q, tolerance=1e-7):
    return q >= q.max(axis=1, keepdims=True) - tolerance


@pytest.mark.parametrize("seed", range(4))
def test_no_potential_changes_the_greedy_policy(seed):
    mdp, shaped = shaped_action_values(0.9, seed)
    np.testing.assert_array_equal(greedy(shaped), greedy(optimal_action_values(mdp, 0.9)))


def test_the_optimal_value_as_potential_pays_the_optimal_advantage():
    gamma, mdp = 0.9, table()
    q = optimal_action_values(mdp, gamma)
    value = q.max(axis=1)
    env = DenseReward(sokoban(), "rewardflow", gamma=gamma, store=fixed(value))
    rng = np.random.default_rng(0)
    for _ in range(20):
        _, info = env.reset(seed=0)
        done = False
        while not done:
            state, action = mdp.index[info["state_key"]], int(rng.integers(4))
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


def test_without_refund_the_optimum_can_change():
    # Φ is 3 in the start state alone: waiting there until the limit is paid 3 more than solving, unless it is paid back
    values = np.zeros(table().size)
    values[0] = 3.0
    store = fixed(values)
    solve = [turn.action for turn in group(0, ExpertAgent()).trajectories[0].turns]
    wait = ["up"] * 12
    assert shaped_return(store, "zero", solve) > shaped_return(store, "zero", wait)
    assert shaped_return(store, "paper", solve) < shaped_return(store, "paper", wait)


def test_paper_shaping_pays_for_arriving():
    store = PotentialStore("rewardflow", discount=0.9)
    store.add([group(0, ExpertAgent())])
    store.publish()
    sums = {}
    for terminal in ("zero", "paper"):
        env = DenseReward(sokoban(), "rewardflow", gamma=1.0, store=store, terminal=terminal)
        _, info = env.reset(seed=0)
        start, total = info["potential"], 0.0
        for turn in group(0, ExpertAgent()).trajectories[0].turns:
            info = env.step(turn.action)[4]
            total += info["shaping"]
        sums[terminal] = total
        assert info["success"]
    assert sums["zero"] == pytest.approx(-start)
    assert sums["paper"] == pytest.approx(1.0 - start)


def test_truncation_keeps_the_potential_for_a_trainer_that_bootstraps():
    for truncation, expected in (("end", 0.0), ("bootstrap", 5.0)):
        values = np.full(table().size, 5.0)
        env = DenseReward(sokoban(2), "rewardflow", gamma=1.0, store=fixed(values), truncation=truncation)  # type: ignore[arg-type]  # one of the literals
        env.reset(seed=0)
        env.step("up")
        _, _, _, truncated, info = env.step("up")
        assert truncated
        assert info["potential"] == expected


def test_a_restored_snapshot_pays_the_same_again():
    env = DenseReward(sokoban(), "rewardflow", gamma=0.9, store=drawn(3))
    env.reset(seed=0)
    env.step("down")
    snapshot = env.get_state()
    first = env.step("right")
    env.step("right")
    env.set_state(snapshot)
    again = env.step("right")
    assert first == again


def test_restoring_behind_the_wrappers_back_is_noticed():
    env = DenseReward(sokoban(), "rewardflow", gamma=0.9, store=drawn(3))
    env.reset(seed=0)
    base: Any = env.unwrapped
    snapshot = base.get_state()
    env.step("down")
    base.set_state(snapshot)
    with pytest.raises(EpisodeError, match="restored outside this wrapper"):
        env.step("down")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format":"other","env":"","potential":0}', '{"format":"dense/1"}'])
def test_other_texts_are_no_snapshots(text):
    env = DenseReward(sokoban(), "rewardflow", gamma=0.9)
    with pytest.raises(DataError):
        env.set_state(text)


@pytest.mark.parametrize("scheme", ["rewardflow", "graphgpo", "grouptd"])
def test_before_the_first_success_there_is_no_shaping(scheme):
    store = PotentialStore(scheme)
    failed = Group(tuple(m for m in group(1, NoisyExpert(1.0), 12).trajectories if not m.success))
    store.add([failed])
    assert store.publish().version == 1
    env = DenseReward(sokoban(), scheme, gamma=0.9, store=store, terminal="paper")
    env.reset(seed=0)
    for member in group(2, ExpertAgent()).trajectories[0].turns:
        assert env.step(member.action)[4]["shaping"] == 0.0


@pytest.mark.parametrize("scheme", ["rewardflow", "graphgpo", "grouptd"])
def test_potentials_rise_along_a_success(scheme):
    store = PotentialStore(scheme, distance_discount=0.8) if scheme == "graphgpo" else PotentialStore(scheme)
    played = group(0)
    assert played.arrays.success.any()
    store.add([played])
    version = store.publish()
    winner = min((m for m in played.trajectories if m.success), key=lambda m: len(m.turns))
    along = [version.of(played.task_id, turn.state_key) for turn in winner.turns]
    assert along[-1] is not None
    assert along[0] is not None
    assert along[-1] > along[0] > 0.0


def test_versions_do_not_depend_on_the_order_in_which_episodes_finish():
    groups = [group(seed, size=3) for seed in range(4)]
    groups = [
        Group(tuple(replace(m, group_id=f"g{i}", trajectory_id=f"g{i}/{j}") for j, m in enumerate(g.trajectories)))
        for i, g in enumerate(groups)
    ]
    versions = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        store = PotentialStore("grouptd", keep=2)
        store.add([groups[i] for i in order])
        versions.append(store.publish())
    assert versions[0] == versions[1]


def test_unknown_states_carry_the_last_known_potential():
    mdp = table()
    known = {mdp.keys[0]: 0.7}
    env = DenseReward(sokoban(), "rewardflow", gamma=1.0, store=Potentials(1, {task_id(): known}))
    env.reset(seed=0)
    _, _, _, _, info = env.step("down")
    assert (info["potential"], info["shaping"]) == (0.7, 0.0)
    env = DenseReward(sokoban(), "rewardflow", gamma=1.0, store=Potentials(1, {task_id(): known}), unknown="zero")
    env.reset(seed=0)
    assert env.step("down")[4]["shaping"] == pytest.approx(-0.7)


def test_the_environments_own_reward_and_score_stay():
    env = DenseReward(InvalidActions(sokoban(), "penalise", penalty=0.3), "rewardflow", gamma=1.0, store=drawn(1))
    env.reset(seed=0)
    _, reward, _, _, info = env.step("nonsense")
    assert info["raw_reward"] == 0.0
    assert reward == pytest.approx(-0.3 + info["shaping"])
    assert info["score"] == 0.0


def test_info_has_the_same_types_at_reset_and_step():
    env = DenseReward(sokoban(), "rewardflow", gamma=0.9, store=drawn(1))
    _, first = env.reset(seed=0)
    _, _, _, _, later = env.step("down")
    assert {k: type(v) for k, v in first.items()} == {k: type(v) for k, v in later.items()}


def test_evaluation_refuses_shaped_rewards():
    env = InvalidActions(DenseReward(sokoban(), "rewardflow", gamma=0.9))
    with pytest.raises(ConfigError, match="remove the wrapper"):
        require_unshaped(env)
    require_unshaped(env, force=True)
    require_unshaped(sokoban())


def test_the_trainers_discount_is_required():
    with pytest.raises(TypeError, match="gamma"):
        DenseReward(sokoban(), "rewardflow")  # type: ignore[call-arg]  # the point of the test


@pytest.mark.parametrize(
    "wrong",
    [{"gamma": 0.0}, {"gamma": 1.5}, {"terminal": "none"}, {"truncation": "x"}, {"unknown": "x"}, {"key": "x"},
     {"discount": 7, "store": Potentials()}],
)  # fmt: skip
def test_senseless_options_are_refused(wrong):
    with pytest.raises(ConfigError):
        DenseReward(sokoban(), "rewardflow", **{"gamma": 0.9, **wrong})


def test_only_schemes_with_a_potential_make_a_store():
    with pytest.raises(ConfigError, match="scheme with a potential"):
        PotentialStore("grpo")
    with pytest.raises(ConfigError, match="stationary"):
        PotentialStore("grouptd", form="horizon")


def test_the_spec_rebuilds_the_wrapper():
    env = DenseReward(sokoban(), "rewardflow", gamma=0.9, beta=0.5, discount=0.8)
    assert env.spec is not None
    again = gym.make(env.spec)
    layer = again
    while not isinstance(layer, DenseReward):
        assert isinstance(layer, gym.Wrapper)
        layer = layer.env
    assert (layer.gamma, layer.beta) == (0.9, 0.5)
    json.loads(env.spec.to_json())
