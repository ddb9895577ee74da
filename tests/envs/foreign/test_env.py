"""Foreign environments under the contract: their own episodes, seeds as tasks, rejected actions, no oracle."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.toy_text import CLIFF, NOISY, TAXI, limited
from helpers.worlds.mission_room import Room

from creditflow.envs.errors import ConfigError, DataError, EpisodeError
from creditflow.envs.foreign.env import ForeignEnv, problem_name
from creditflow.envs.info import INFO_TYPES
from creditflow.envs.registration import make, make_vec
from creditflow.envs.spaces import TextSpace

TOY = (CLIFF, TAXI, NOISY, "FrozenLake-v1", "Blackjack-v1")


@pytest.mark.parametrize("name", TOY)
@pytest.mark.parametrize("seed", [0, 7])
def test_an_episode_by_seed_is_the_environments_own(name, seed):
    bare, env = limited(name), ForeignEnv(limited(name), success="positive_reward")
    rng = np.random.default_rng(seed)
    expected, _ = bare.reset(seed=seed)
    obs, info = env.reset(seed=seed)
    over = False
    while not over:
        assert obs == expected
        assert {key: type(value) for key, value in info.items() if key in INFO_TYPES} == dict(INFO_TYPES)
        action = int(rng.integers(bare.action_space.n))
        assert str(action) in info["admissible_actions"]
        expected, reward, terminated, truncated, _ = bare.step(action)
        obs, own_reward, own_terminated, own_truncated, info = env.step(action)
        assert (own_reward, own_terminated, own_truncated) == (reward, terminated, truncated and not terminated)
        assert info["success"] == (terminated and reward > 0)
        over = terminated or truncated
    assert info["admissible_actions"] == ()
    with pytest.raises(EpisodeError):
        env.step(0)


@pytest.mark.parametrize("name", TOY)
def test_a_task_is_a_seed_by_id_by_content_and_by_sampling(name):
    env = ForeignEnv(limited(name), success="terminated")
    _, first = env.reset(seed=5)
    task = env.task
    assert first["task_id"] == f"{problem_name(limited(name))}:seed=5"
    for options in ({"task_id": task.task_id}, {"task": {"seed": 5}}, {"task": dict(task.content)}):
        _, info = env.reset(options=options)
        assert (info["task_id"], info["state_key"]) == (first["task_id"], first["state_key"])
    sampled = [env.reset()[1]["task_id"] for _ in range(3)]
    assert len(set(sampled)) == 3
    assert env.reset(options={"task_id": sampled[0]})[1]["task_id"] == sampled[0]


def test_noise_after_a_named_start_is_that_of_the_seed_beside_the_task():
    def states(seed: int | None) -> list[str]:
        env = ForeignEnv(gym.make(NOISY), success="terminated", max_steps=40)
        _, info = env.reset(seed=seed, options={"task": {"seed": 1}})
        keys = [info["state_key"]]
        while info["admissible_actions"]:
            info = env.step(1)[4]
            keys.append(info["state_key"])
        return keys

    assert states(3) == states(3)
    assert states(3) != states(4)
    assert states(None) != states(None)
    assert states(3)[0] == states(4)[0]


def test_observations_of_dictionaries_are_compared_by_content_and_options_of_reset_are_part_of_the_task():
    env = ForeignEnv(Room(), success="reported")
    _, info = env.reset(options={"task": {"seed": 0, "options": {"goal": 2}}})
    assert info["room"] == "cellar"
    assert info["admissible_actions"] == ("0", "1")
    assert info["task_id"].startswith("Room:seed=0,options:")
    stay = env.step(0)[4]
    assert (stay["state_key"], stay["action_effective"]) == (info["state_key"], False)
    moved = env.step("1")[4]
    assert moved["action_effective"]
    assert moved["state_key"] != info["state_key"]
    *_, terminated, _, last = env.step(np.int64(1))
    assert (terminated, last["success"], last["score"]) == (True, True, 1.0)
    other = ForeignEnv(Room(), success="reported", state_key=lambda obs, _info: (obs["direction"], obs["mission"]))
    assert other.reset(options={"task": dict(env.task.content)})[1]["task_id"] == info["task_id"]


class Door(Room):
    """A text environment that lists its own actions."""

    action_space = TextSpace()

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed, options=options)
        return obs, {"admissible_actions": ["open door"]}

    def step(self, action):
        obs, reward, done, cut, info = super().step(action == "open door")
        return obs, reward, done, cut, info | {"admissible_actions": ["enter", "open door"]}


def test_actions_that_the_environment_lists_are_listed_and_others_may_be_tried():
    env = ForeignEnv(Door(), success="reported")
    assert env.reset(options={"task": {"seed": 0, "options": {"goal": 2}}})[1]["admissible_actions"] == ("open door",)
    info = env.step("sing")[4]
    assert info["admissible_actions"] == ("enter", "open door")
    assert info["action_valid"]
    assert not env.lists_all_actions
    assert ForeignEnv(Room(), success="reported").lists_all_actions
    assert not ForeignEnv(gym.make("Pendulum-v1"), success="terminated").lists_all_actions
    env.step("open door")
    assert env.step("open door")[4]["admissible_actions"] == ()
    odd = ForeignEnv(TransformAction(Door()), success="reported")
    with pytest.raises(DataError, match=r"info\['admissible_actions'\] contains an invalid action"):
        odd.reset(seed=0)


class TransformAction(gym.Wrapper):
    """Another action space, which the listed texts are no elements of."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.action_space = spaces.Discrete(2)


def test_an_action_that_is_no_element_costs_a_turn_but_no_step():
    env = ForeignEnv(limited(CLIFF), success="terminated", max_steps=3)
    before = env.reset(seed=0)[1]["state_key"]
    for action in (4, "north"):
        _, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated, info["state_key"]) == (0.0, False, False, before)
        assert (info["action_valid"], info["invalid_reason"] != "") == (False, True)
    *_, truncated, info = env.step(0)
    assert truncated
    assert info["elapsed_steps"] == 3
    assert not info["success"]


def test_a_limit_of_the_environment_is_a_truncation_and_success_is_judged_on_the_last_step_alone():
    env = ForeignEnv(gym.make("CartPole-v1", max_episode_steps=3), state_key="rounded:1",
                     success=lambda _reward, _terminated, truncated, _info: truncated)  # fmt: skip
    env.reset(seed=0)
    outcomes = [env.step(action)[2:] for action in (0, 1, 0)]
    assert [(terminated, truncated, info["success"]) for terminated, truncated, info in outcomes] == [
        (False, False, False), (False, False, False), (False, True, True),
    ]  # fmt: skip


def test_the_rule_of_success_is_told_of_our_own_limit_too():
    seen: list[tuple[bool, bool]] = []

    def judge(_reward, terminated, truncated, _info):
        seen.append((terminated, truncated))
        return truncated

    env = ForeignEnv(limited(CLIFF), success=judge, max_steps=2)
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[4]["success"]
    env.reset(seed=0)
    env.step(0)
    assert not env.step("north")[4]["success"]  # a rejected action is no step of the environment
    assert seen == [(False, True)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "does not define success, so you have to. Pass success='terminated'"),
        ({"success": "terminates"}, "did you mean 'terminated'"),
        ({"success": 3}, "success must be a function or a name"),
        ({"success": "terminated", "state_key": "roundd:2"}, "did you mean 'rounded:2'"),
        ({"success": "terminated", "state_key": "rounded:x"}, "rounded:2"),
        ({"success": "terminated", "state_key": 3}, "state_key must be a function"),
        ({"success": "terminated", "max_steps": 0}, "max_steps"),
        *[({"success": "terminated", "name": name}, "name must be a printable text") for name in ("", "a\nb", 3)],
    ],
)
def test_wrong_rules_are_refused_at_once(arguments, message):
    with pytest.raises(ConfigError, match=message):
        ForeignEnv(limited(CLIFF), **arguments)


def test_what_is_no_environment_of_others_is_refused():
    vector: Any = gym.make_vec(CLIFF, 2, vectorization_mode="sync")
    gym_id: Any = CLIFF
    with pytest.raises(ConfigError, match="a vector of environments"):
        ForeignEnv(vector, success="terminated")
    with pytest.raises(ConfigError, match="needs no ForeignEnv"):
        ForeignEnv(make("sokoban"), success="terminated")
    with pytest.raises(ConfigError, match="got str"):
        ForeignEnv(gym_id, success="terminated")


def test_an_oracle_is_missing_by_name():
    env = ForeignEnv(limited(CLIFF), success="terminated")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=f"{CLIFF} has no oracle"):
        _ = env.oracle


def slippery(max_steps=20):
    return ForeignEnv(gym.make("FrozenLake-v1"), success="positive_reward", max_steps=max_steps)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("named", [False, True])
def test_a_snapshot_restores_in_another_instance_with_the_noise_that_follows(seed, named):
    env, other, rng = slippery(), slippery(), np.random.default_rng(seed)
    env.reset(seed=seed, options={"task": {"seed": 3}} if named else None)
    for t in range(1 + seed % 6):
        if not env.is_over:
            env.step("north" if t % 3 == 2 else int(rng.integers(4)))  # a rejected action costs a turn
    snapshot = env.get_state()
    _, info = other.set_state(snapshot)
    assert other.get_state() == snapshot
    assert (other.is_over, info["elapsed_steps"], info["task_id"]) == (env.is_over, env.elapsed_steps, env.task.task_id)
    while not env.is_over:
        action = int(rng.integers(4))
        assert env.step(action) == other.step(action)
    assert other.is_over


def test_a_new_generator_gives_other_noise_that_snapshots_keep():
    env, other = slippery(), slippery()
    env.reset(seed=0)
    start, ends = env.get_state(), set()
    for seed in range(8):
        env.set_state(start)
        env.np_random = np.random.default_rng(seed)
        ends.add(env.step(2)[0])
        other.set_state(env.get_state())
        assert other.is_over or other.step(2) == env.step(2)
    assert len(ends) > 1


def test_generators_that_nothing_was_drawn_from_do_not_lengthen_a_snapshot():
    env, other = slippery(), slippery()
    env.reset(seed=0)
    for seed in range(100):
        env.np_random = np.random.default_rng(seed)
    other.reset(seed=0)
    other.np_random = np.random.default_rng(99)
    assert env.get_state() == other.get_state()
    assert env.step(2)[0] == other.step(2)[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "[", "not JSON"),
        (lambda text: "{}", "expected a snapshot"),
        (lambda text: text.replace("foreign/1", "foreign/2"), "expected a snapshot"),
        (lambda text: text.replace('"events": [', '"events": [1, '), "events of a snapshot"),
        (lambda text: text.replace('"events": [', '"events": [[1, -1], '), "events of a snapshot"),
        (lambda text: text.replace('"events": [', '"events": [' + "null, " * 21), "more turns than max_steps=20"),
        (
            lambda text: text.replace('"events": [', '"events": [' + "[1, 2], " * 22),
            "22 pairs of seeds, .*max_steps=20 has at most 21",
        ),
        (lambda text: text.replace('"events": [', '"events": ["north", '), "led to state"),
        (lambda text: text.replace("int:", "int:9"), "led to state"),
        (lambda text: text.replace('"seed": 0', '"seed": "x"'), "seed must be an integer"),
    ],
)
def test_what_is_no_snapshot_is_refused(change, message):
    env = slippery()
    env.reset(seed=0)
    env.step(1)
    with pytest.raises(DataError, match=message):
        slippery().set_state(change(env.get_state()))


def test_an_environment_that_does_not_do_the_same_again_is_named():
    class Drifting(gym.Env):
        action_space, observation_space, count = spaces.Discrete(2), spaces.Discrete(1000), 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            Drifting.count += 1
            return Drifting.count, 0.0, False, False, {}

    env = ForeignEnv(Drifting(), success="terminated", max_steps=5)
    env.reset(seed=0)
    env.step(1)
    with pytest.raises(DataError, match="whose steps follow from the seed of reset"):
        env.set_state(env.get_state())


def test_success_that_is_not_reported_is_an_error_with_the_keys_of_info():
    env = ForeignEnv(gym.make("FrozenLake-v1", is_slippery=False), success="reported", max_steps=1)
    env.reset(seed=0)
    with pytest.raises(DataError, match="which has neither; its keys are 'prob'"):
        env.step(0)


def test_an_observation_that_changes_after_its_step_does_not_change_the_state():
    class Grows(Room):
        def step(self, action):
            self.seen.append(int(action))
            return self.seen, 0.0, False, False, {}

        def reset(self, *, seed=None, options=None):
            _, info = super().reset(seed=seed, options=options)
            self.seen: list[int] = []
            return self.seen, info

    env = ForeignEnv(Grows(), success="terminated")
    keys = [env.reset(seed=0)[1]["state_key"]]
    effects = []
    for _ in range(3):
        info = env.step(0)[4]
        keys.append(info["state_key"])
        effects.append(info["action_effective"])
    assert len(set(keys)) == 4
    assert effects == [True] * 3


def test_pictures_and_the_end_are_the_environments_own():
    class Shown(Room):
        metadata = {"render_modes": ["ansi"]}
        render_mode = "ansi"
        closed = 0

        def render(self):
            return "a room"

        def close(self):
            self.closed += 1

    inner = Shown()
    env = ForeignEnv(inner, success="reported")
    assert (env.render_mode, env.metadata["render_modes"], env.render()) == ("ansi", ["ansi"], "a room")
    env.close()
    assert inner.closed == 1


def test_an_environment_that_fails_once_can_be_reset():
    class Fails(Room):
        def step(self, action):
            if self.goal == 2:
                raise RuntimeError("lost its connection")
            return super().step(action)

    env = ForeignEnv(Fails(), success="reported")
    env.reset(options={"task": {"seed": 0, "options": {"goal": 2}}})
    with pytest.raises(RuntimeError, match="connection"):
        env.step(1)
    env.reset(options={"task": {"seed": 0, "options": {"goal": 1}}})
    assert env.step(1)[4]["success"]


def test_make_takes_the_rules_beside_the_environments_own_arguments():
    env = make("FrozenLake-v1", success="positive_reward", is_slippery=False)
    assert isinstance(env, ForeignEnv)
    assert not isinstance(make("FrozenLake-v1").unwrapped, ForeignEnv)


def test_a_vector_takes_what_make_takes():
    vector = make_vec("FrozenLake-v1", 2, success="positive_reward", is_slippery=False)
    _, infos = vector.reset(seed=3)
    assert [str(one) for one in infos["task_id"]] == [
        make("FrozenLake-v1", success="positive_reward", is_slippery=False).reset(seed=seed)[1]["task_id"]
        for seed in (3, 4)
    ]
    vector.close()
    with pytest.raises(ConfigError, match="unknown environment"):
        make_vec("FrozenLake", 2)
