"""``DenseReward``: options, snapshots and info."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.worlds.shaped_sokoban import fixed_potential, mdp, random_potential, sokoban, task_id

from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.wrappers.dense_reward import DenseReward, require_unshaped
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.invalid_actions import InvalidActions
from creditflow.wrappers.potentials import Potentials


def test_truncation_keeps_the_potential_for_a_trainer_that_bootstraps():
    for truncation, expected in (("end", 0.0), ("bootstrap", 5.0)):
        values = np.full(mdp().size, 5.0)
        env = DenseReward(sokoban(2), "rewardflow", gamma=1.0, store=fixed_potential(values), truncation=truncation)  # type: ignore[arg-type]  # one of the literals
        env.reset(seed=0)
        env.step("up")
        _, _, _, truncated, info = env.step("up")
        assert truncated
        assert info["potential"] == expected


def test_a_copy_gives_the_same_reward_again():
    env = DenseReward(sokoban(), "rewardflow", gamma=0.9, store=random_potential(3))
    env.reset(seed=0)
    env.step("down")
    copied = copy.deepcopy(env)
    first = env.step("right")
    env.step("right")
    assert copied.step("right") == first


def test_restoring_outside_the_wrapper_is_an_error():
    env = DenseReward(sokoban(), "rewardflow", gamma=0.9, store=random_potential(3))
    env.reset(seed=0)
    base: Any = env.unwrapped
    snapshot = base.get_state()
    env.step("down")
    base.set_state(snapshot)
    with pytest.raises(EpisodeError, match="restored outside this wrapper"):
        env.step("down")


def test_unknown_states_carry_the_last_known_potential():
    states = mdp()
    known = {states.keys[0]: 0.7}
    env = DenseReward(sokoban(), "rewardflow", gamma=1.0, store=Potentials(1, {task_id(): known}))
    env.reset(seed=0)
    _, _, _, _, info = env.step("down")
    assert (info["potential"], info["shaping"]) == (0.7, 0.0)
    env = DenseReward(sokoban(), "rewardflow", gamma=1.0, store=Potentials(1, {task_id(): known}), unknown="zero")
    env.reset(seed=0)
    assert env.step("down")[4]["shaping"] == pytest.approx(-0.7)


def test_raw_reward_and_score_are_unchanged():
    env = DenseReward(
        InvalidActions(sokoban(), "penalise", penalty=0.3), "rewardflow", gamma=1.0, store=random_potential(1)
    )
    env.reset(seed=0)
    _, reward, _, _, info = env.step("nonsense")
    assert info["raw_reward"] == 0.0
    assert reward == pytest.approx(-0.3 + info["shaping"])
    assert info["score"] == 0.0


def test_info_has_the_same_types_at_reset_and_step():
    env = DenseReward(sokoban(), "rewardflow", gamma=0.9, store=random_potential(1))
    _, first = env.reset(seed=0)
    _, _, _, _, later = env.step("down")
    assert {k: type(v) for k, v in first.items()} == {k: type(v) for k, v in later.items()}


def test_evaluation_rejects_shaped_rewards():
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
def test_invalid_options_are_rejected(wrong):
    with pytest.raises(ConfigError):
        DenseReward(sokoban(), "rewardflow", **{"gamma": 0.9, **wrong})


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


def test_the_record_of_a_group_of_shaped_environments_has_the_environments_own_reward() -> None:
    store = random_potential(3)
    group = GroupEnv(lambda: DenseReward(sokoban(), "rewardflow", gamma=0.9, store=store), size=2)
    plain = GroupEnv(sokoban, size=2)
    for one in (group, plain):
        one.reset(seed=0)
    differ = False
    while group.active:
        actions = (
            dict.fromkeys(group.active, "up") if len(group.members[0].turns) % 2 else dict.fromkeys(group.active, "?")
        )
        shaped, own = group.step(actions), plain.step(actions)
        differ |= any(shaped[i].reward != own[i].reward for i in shaped)
        assert all(shaped[i].info["raw_reward"] == own[i].reward for i in shaped)
    assert differ
    recorded = [[turn.reward for turn in one.turns] for one in group.group().trajectories]
    assert recorded == [[turn.reward for turn in one.turns] for one in plain.group().trajectories]


def test_a_penalty_around_a_shaped_environment_lowers_its_shaped_reward() -> None:
    store = random_potential(3)
    plain = InvalidActions(DenseReward(sokoban(), "rewardflow", gamma=0.9, store=store), "keep")
    penalised = InvalidActions(DenseReward(sokoban(), "rewardflow", gamma=0.9, store=store), "penalise", penalty=0.3)
    plain.reset(seed=0)
    penalised.reset(seed=0)
    shaped, lowered = (env.step("nonsense") for env in (plain, penalised))
    assert shaped[1] != shaped[4]["raw_reward"]
    assert lowered[1] == pytest.approx(float(shaped[1]) - 0.3)
    assert lowered[4]["raw_reward"] == shaped[4]["raw_reward"]


def test_a_wrapper_that_resets_by_itself_belongs_outside():
    outside: Any = gym.wrappers.Autoreset(DenseReward(sokoban(2), "rewardflow", gamma=0.9, store=random_potential(3)))
    _, info = outside.reset(seed=0)
    steps = [outside.step("up") for _ in range(5)]
    assert [step[3] for step in steps] == [False, True, False, False, True]
    assert [step[4]["shaping"] for step in steps[3:]] == [step[4]["shaping"] for step in steps[:2]]
    assert steps[2][4]["potential"] == info["potential"] != 0.0
    inside: Any = DenseReward(gym.wrappers.Autoreset(sokoban(2)), "rewardflow", gamma=0.9, store=random_potential(3))
    inside.reset(seed=0)
    assert [inside.step("up")[3] for _ in range(2)] == [False, True]
    with pytest.raises(EpisodeError, match=r"\(Autoreset\) outside of DenseReward"):
        inside.step("up")


STACKS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "statistics inside": lambda env, dense: dense(gym.wrappers.RecordEpisodeStatistics(env)),
    "statistics outside": lambda env, dense: gym.wrappers.RecordEpisodeStatistics(dense(env)),
    "time limit inside": lambda env, dense: gym.wrappers.RecordEpisodeStatistics(dense(gym.wrappers.TimeLimit(env, 3))),
    "checker and observation inside": lambda env, dense: gym.wrappers.RecordEpisodeStatistics(
        dense(gym.wrappers.TransformObservation(gym.wrappers.PassiveEnvChecker(env), str.upper, env.observation_space))
    ),
    "checker outside": lambda env, dense: gym.wrappers.PassiveEnvChecker(
        gym.wrappers.OrderEnforcing(gym.wrappers.RecordEpisodeStatistics(dense(env)))
    ),
}


@pytest.mark.parametrize("stack", STACKS)
def test_shaping_among_gymnasiums_wrappers_sums_to_minus_the_first_potential(stack):
    env = STACKS[stack](
        sokoban(5), lambda inner: DenseReward(inner, "rewardflow", gamma=1.0, store=random_potential(4))
    )
    rng = np.random.default_rng(0)
    for seed in range(4):
        _, info = env.reset(seed=seed)
        first, raw, shaping, length, over = info["potential"], 0.0, 0.0, 0, False
        while not over:
            _, _, terminated, truncated, info = env.step(("up", "down", "left", "right", "wrong")[rng.integers(5)])
            raw, shaping, length = raw + info["raw_reward"], shaping + info["shaping"], length + 1
            over = terminated or truncated
        assert first > 0.0
        assert shaping == pytest.approx(-first, abs=1e-12)
        assert info["episode"]["l"] == length
        counted = raw if stack == "statistics inside" else raw - first
        assert info["episode"]["r"] == pytest.approx(counted, abs=1e-6)
