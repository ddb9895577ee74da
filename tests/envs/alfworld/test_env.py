"""The environment: contract, sources, observation modes, keys, snapshots, many at once."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from helpers.shared_data import ROOT, shared_file
from hypothesis import given
from hypothesis import strategies as st

import creditflow
from creditflow.envs import check_agent_env
from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.generator.houses import generate
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, MissingExtraError, UnknownTaskError
from creditflow.envs.tasks import load_panel

DATA = str(shared_file("data/alfworld"))
SHARED_PLACE = str(
    shared_file("data/alfworld/json_2.1.1/valid_seen/pick_and_place_simple-Vase-None-CoffeeTable-207/*/game.tw-pddl")
)
KITCHEN = str(
    shared_file("data/alfworld/json_2.1.1/valid_seen/pick_and_place_simple-Tomato-None-Microwave-13/*/game.tw-pddl")
)
APPLE = (
    "go to fridge 1", "open fridge 1", "take apple 3 from fridge 1", "go to sinkbasin 1",
    "clean apple 3 with sinkbasin 1",
)  # fmt: skip


def play(env: ALFWorldEnv, *commands: str) -> tuple[str, dict]:
    observation = ""
    info: dict = {}
    for command in commands:
        observation, _, _, _, info = env.step(command)
        assert info["action_valid"], (command, info["invalid_reason"])
    return observation, info


def wander(env: ALFWorldEnv, seed: int, steps: int, info: dict) -> dict:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        actions = info["admissible_actions"]
        if not actions:
            break
        *_, info = env.step(actions[int(rng.integers(len(actions)))])
    return info


# -- the contract ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"panel": "standard-v1:valid", "observation": "augmented", "text_key": "graphgpo"},
        {"split": "valid_unseen", "task_types": ["look_at_obj_in_light"], "text_key": "rewardflow", "syntax": "put"},
        {"data_path": DATA, "split": "valid_seen", "text_key": "rewardflow_paper", "reward": "ten"},
        {"panel": "released-v1:test", "data_path": DATA},
        {"game": KITCHEN, "observation": "augmented"},
    ],
    ids=["default", "panel", "types", "folder", "released panel", "one game"],
)
def test_the_contract_holds_for_every_source_and_mode(options: dict) -> None:
    if options.get("panel") == "released-v1:test":  # the open data folder holds a part of the panel's games
        env = gym.make("creditflow/ALFWorld-v0", **options)
        held = {row.task_id for row in load_panel("alfworld", "released-v1").split("test")}
        ids = set(ALFWorldEnv(data_path=DATA, split="valid_unseen").tasks.task_ids()) & held
        for task_id in sorted(ids):
            assert env.reset(options={"task_id": task_id})[1]["task_id"] == task_id
        assert len(ids) > 10
        return
    env = gym.make("creditflow/ALFWorld-v0", **options)
    check_agent_env(env)
    check_env(gym.make("creditflow/ALFWorld-v0", **options).unwrapped, skip_render_check=True)


def test_the_spec_survives_json() -> None:
    env = gym.make("creditflow/ALFWorld-v0", task_types=["pick_and_place_simple"], observation="augmented")
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=3)[0] == env.reset(seed=3)[0]


def test_playing_natively_imports_no_engine() -> None:
    code = (
        "import sys, creditflow; creditflow.make('alfworld').reset(seed=0); "
        "assert not {'textworld', 'alfworld', 'fast_downward'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


@pytest.mark.skipif(importlib.util.find_spec("alfworld") is not None, reason="the real engine is installed")
def test_the_real_engine_missing_is_said_with_the_install_command() -> None:
    with pytest.raises(MissingExtraError, match=r"creditflow\[alfworld\]"):
        ALFWorldEnv(backend="textworld")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation": "raww"}, "did you mean 'raw'"),
        ({"text_key": "gigpo"}, "unknown text_key"),
        ({"syntax": "mov"}, "did you mean 'move'"),
        ({"reward": "dense"}, "unknown reward"),
        ({"backend": "textwordl"}, "did you mean 'textworld'"),
        ({"split": "test"}, "unknown split"),
        ({"task_types": ["pick_heat"]}, "unknown task type"),
        ({"task_types": "look_at_obj_in_light"}, "list of names"),
        ({"panel": "standard-v1:train", "split": "train"}, "leave split"),
        ({"game": KITCHEN, "data_path": DATA}, "leave panel, data_path"),
        ({"max_steps": 0}, "max_steps"),
        ({"panel": "standard-v2:train"}, "did you mean 'standard-v1'"),
    ],
)
def test_wrong_arguments_are_refused_with_the_near_name(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ALFWorldEnv(**options)


# -- tasks -----------------------------------------------------------------------------------------------------------
def test_a_seed_is_the_same_game_in_every_environment_of_a_group() -> None:
    ids = {ALFWorldEnv(data_path=DATA, split="train").reset(seed=4)[1]["task_id"] for _ in range(3)}
    assert len(ids) == 1


def test_a_panel_id_is_known_to_the_generator_on_any_worker() -> None:
    row = load_panel("alfworld", "standard-v1").split("test")[5]
    assert ALFWorldEnv().reset(options={"task_id": row.task_id})[1]["task_id"] == row.task_id


def test_an_unknown_id_is_refused_and_the_way_out_named() -> None:
    for env in (ALFWorldEnv(), ALFWorldEnv(panel="standard-v1:valid"), ALFWorldEnv(data_path=DATA)):
        with pytest.raises(UnknownTaskError, match="content"):
            env.reset(options={"task_id": "alfworld1:" + "0" * 32})


def test_a_game_can_be_given_as_path_fields_content_or_seed() -> None:
    env = ALFWorldEnv()
    with open(KITCHEN, encoding="utf-8") as file:  # noqa: PTH123 - the fields as a user would read them
        fields = json.load(file)
    ids = {env.reset(options={"task": given})[1]["task_id"] for given in (KITCHEN, fields)}
    ids.add(env.reset(options={"task": env.task.content})[1]["task_id"])
    assert len(ids) == 1
    made = env.reset(options={"task": {"seed": 7, "split": "train"}})[1]["task_id"]
    assert env.reset(options={"task": generate(7)})[1]["task_id"] == made


def test_task_types_limit_what_is_drawn() -> None:
    env = ALFWorldEnv(task_types=["pick_two_obj_and_place", "look_at_obj_in_light"])
    assert {env.reset(seed=s)[1]["task_type"] for s in range(20)} == {"pick_two_obj_and_place", "look_at_obj_in_light"}
    env = ALFWorldEnv(data_path=DATA, split="valid_seen", task_types=["pick_two_obj_and_place"])
    assert {env.reset(seed=s)[1]["task_type"] for s in range(10)} == {"pick_two_obj_and_place"}


def test_a_folder_is_listed_in_the_order_of_its_paths() -> None:
    env = ALFWorldEnv(data_path=DATA, split="valid_unseen")
    paths = [path.as_posix() for path in env.tasks.paths]  # type: ignore[attr-defined]  # a FolderTasks
    assert paths == sorted(paths, key=lambda path: path.split("/"))
    assert len(env.tasks.task_ids()) == len(paths)
    env.reset(seed=1)
    assert env.source_file() in paths


# -- play ------------------------------------------------------------------------------------------------------------
def test_a_walkthrough_wins_and_pays_once() -> None:
    for reward, paid in (("sparse", 1.0), ("ten", 10.0)):
        env = ALFWorldEnv(reward=reward)
        env.reset(seed=11)
        plan = env.walkthrough()
        rewards = []
        for command in plan:
            _, earned, terminated, truncated, info = env.step(command)
            rewards.append(earned)
        assert (terminated, truncated, info["won"], info["score"]) == (True, False, True, 1.0)
        assert rewards == [0.0] * (len(plan) - 1) + [paid]
        assert info["goal_condition_success_rate"] == 1.0


def test_the_limit_truncates_and_never_terminates() -> None:
    env = ALFWorldEnv(max_steps=3)
    env.reset(seed=0)
    ends = [env.step("look")[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    with pytest.raises(EpisodeError):
        env.step("look")


def test_goal_conditions_are_counted_as_alfred_does() -> None:
    env = ALFWorldEnv(task_types=["pick_clean_then_place_in_recep"])
    env.reset(seed=2)
    rates = [env.step(command)[4]["goal_condition_success_rate"] for command in env.walkthrough()]
    assert sorted(set(rates)) == [0.0, 1 / 3, 1.0]
    env = ALFWorldEnv(task_types=["look_at_obj_in_light"])
    env.reset(seed=2)
    rates = [env.step(command)[4]["goal_condition_success_rate"] for command in env.walkthrough()]
    assert rates[-2:] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("go to garage 1", "no receptacle of this name"),
        ("open fridge 1", "not at fridge 1"),
        ("take tomato 9 from fridge 1", "no object of this name"),
        ("put apple 3 in/on fridge 1", "'move OBJECT to RECEPTACLE'"),
        ("take apple 1 from sinkbasin 1", "not at sinkbasin 1"),
        ("examine apple 1", "object in your hand"),
        ("heat apple 1 with microwave 1", "not at microwave 1"),
        ("sing", "not a command"),
        ("slice apple 1 with knife 1", "knife"),
        ("", "empty"),
    ],
)
def test_a_refused_command_says_nothing_happens_and_info_says_why(command: str, reason: str) -> None:
    env = ALFWorldEnv(game=KITCHEN)
    _, before = env.reset()
    observation, reward, terminated, _, info = env.step(command)
    assert (observation, reward, terminated) == ("Nothing happens.", 0.0, False)
    assert info["state_key"] == before["state_key"]
    assert not info["action_valid"]
    assert reason in info["invalid_reason"]


@pytest.mark.parametrize(
    ("start", "command", "reason"),
    [
        (("go to fridge 1",), "go to fridge 1", "already there"),
        (("go to fridge 1",), "take apple 3 from fridge 1", "fridge 1 is closed"),
        (("go to fridge 1",), "close fridge 1", "closed already"),
        (("go to fridge 1", "open fridge 1"), "open fridge 1", "open already"),
        (APPLE[:3], "take bowl 1 from fridge 1", "hand is full: you hold apple 3"),
        (APPLE[:4], "heat apple 3 with sinkbasin 1", "cannot be heated there"),
        (APPLE[:3], "slice apple 1 with apple 3", "only a knife"),
        (("go to sinkbasin 1",), "open sinkbasin 1", "cannot be opened"),
        (("go to sinkbasin 1",), "use apple 1", "cannot be switched on"),
        (("go to sinkbasin 1",), "clean apple 1 with sinkbasin 1", "do not hold"),
    ],
)
def test_reasons_name_the_obstacle(start: tuple[str, ...], command: str, reason: str) -> None:
    env = ALFWorldEnv(game=KITCHEN)
    env.reset()
    play(env, *start)
    assert reason in env.step(command)[4]["invalid_reason"]


def test_an_action_without_effect_is_valid_and_not_effective() -> None:
    env = ALFWorldEnv(game=KITCHEN)
    env.reset()
    play(env, *APPLE)
    for command in ("clean apple 3 with sinkbasin 1", "look", "inventory", "help", "examine sinkbasin 1"):
        info = env.step(command)[4]
        assert (info["action_valid"], info["action_effective"]) == (True, False), command


# -- observation modes and keys --------------------------------------------------------------------------------------
def test_augmented_observations_show_place_hand_properties_and_moves_and_cost_no_step() -> None:
    env = ALFWorldEnv(game=KITCHEN, observation="augmented")
    env.reset()
    play(env, *APPLE)
    observation, info = play(env, "go to microwave 1", "heat apple 3 with microwave 1", "go to fridge 1")
    assert info["elapsed_steps"] == 8
    assert observation.endswith("You are at: fridge 1.\nIn your hand: apple 3 [cleaned] [heated].")
    observation, _ = play(env, "go to countertop 3", "move apple 3 to countertop 3")
    assert observation.startswith("You move the apple 3 to the countertop 3.\n")
    assert observation.endswith(
        "In your hand: nothing.\nYou moved: apple 3 [cleaned] [heated] from fridge 1 to countertop 3."
    )


def test_augmented_observations_name_all_receptacles_of_a_shared_place() -> None:
    env = ALFWorldEnv(game=SHARED_PLACE, observation="augmented")
    env.reset()
    assert "You are at: shelf 2 and tvstand 1." in play(env, "go to tvstand 1")[0]


def test_the_observation_key_is_the_observation() -> None:
    for mode in ("raw", "augmented"):
        env = ALFWorldEnv(game=KITCHEN, observation=mode)
        observation, info = env.reset()
        assert info["text_key"] == observation


def test_the_graphgpo_key_is_reply_place_hand_moves_and_sorted_commands() -> None:
    env = ALFWorldEnv(game=KITCHEN, text_key="graphgpo")
    _, info = env.reset()
    commands = ",".join(info["admissible_actions"])
    assert info["text_key"].endswith(f" Location: middle of a room. Items in hand (status): nothing. {commands}")
    observation, info = play(env, *APPLE)
    commands = ",".join(info["admissible_actions"])
    assert info["text_key"] == (
        f"{observation} Location: sinkbasin 1. Items in hand (status): apple 3(cleaned). {commands}"
    )
    observation, info = play(env, "move apple 3 to sinkbasin 1")
    assert "History moving list by you: apple 3(cleaned) from fridge 1 move to sinkbasin 1; " in info["text_key"]


def test_the_rewardflow_key_loses_its_tag_after_one_step_and_the_papers_keeps_it() -> None:
    keys: dict[str, list[str]] = {}
    for name in ("rewardflow", "rewardflow_paper"):
        env = ALFWorldEnv(game=KITCHEN, text_key=name)
        env.reset()
        keys[name] = [play(env, *APPLE)[1]["text_key"], play(env, "go to fridge 1")[1]["text_key"]]
    assert keys["rewardflow"][0].endswith(". You are carrying: a apple 3 (cleaned).")
    assert keys["rewardflow"][1].endswith(". You are carrying: a apple 3.")
    assert all(key.endswith(". You are carrying: a apple 3 [cleaned].") for key in keys["rewardflow_paper"])


def test_the_rewardflow_key_of_success_is_a_constant() -> None:
    env = ALFWorldEnv(text_key="rewardflow")
    env.reset(seed=3)
    assert play(env, *env.walkthrough())[1]["text_key"] == "You Won!"


@given(seed=st.integers(0, 10_000), walk=st.integers(0, 10_000), steps=st.integers(0, 40))
def test_equal_state_keys_mean_equal_commands_conditions_and_distances(seed: int, walk: int, steps: int) -> None:
    """Two different ways to one key: a walk, and the same walk with idle commands in between."""
    first, second = ALFWorldEnv(max_steps=500), ALFWorldEnv(max_steps=500)
    _, info = first.reset(seed=seed)
    _, other = second.reset(seed=seed)
    rng = np.random.default_rng(walk)
    for _ in range(steps):
        actions = info["admissible_actions"]
        if not actions:
            return
        command = actions[int(rng.integers(len(actions)))]
        *_, info = first.step(command)
        for idle in ("look", "inventory", "nonsense"):
            second.step(idle)
        *_, other = second.step(command)
    assert info["state_key"] == other["state_key"]
    assert info["admissible_actions"] == other["admissible_actions"]
    assert info["goal_condition_success_rate"] == other["goal_condition_success_rate"]
    assert first.oracle.distance(first.get_state()) == second.oracle.distance(second.get_state())


def test_going_back_and_forth_comes_back_to_the_same_key_and_changing_a_thing_does_not() -> None:
    env = ALFWorldEnv(game=KITCHEN)
    env.reset()
    here = play(env, "go to fridge 1")[1]["state_key"]
    assert play(env, "open fridge 1", "close fridge 1")[1]["state_key"] == here
    assert play(env, "go to sinkbasin 1", "go to fridge 1")[1]["state_key"] == here
    assert play(env, "open fridge 1", "take apple 3 from fridge 1")[1]["state_key"] != here
    assert play(env, "move apple 3 to fridge 1", "close fridge 1")[1]["state_key"] == here


def test_states_of_different_houses_never_share_a_key() -> None:
    keys = {ALFWorldEnv().reset(seed=seed)[1]["state_key"] for seed in range(30)}
    assert len(keys) == 30


def test_old_syntax_is_spoken_only_when_asked_for() -> None:
    env = ALFWorldEnv(game=KITCHEN, syntax="put")
    env.reset()
    info = play(env, *APPLE[:3])[1]
    assert "put apple 3 in/on fridge 1" in info["admissible_actions"]
    assert not {"help", "move apple 3 to fridge 1"} & set(info["admissible_actions"])
    assert play(env, "put apple 3 in/on fridge 1")[0] == "You put the apple 3 in/on the fridge 1."
    assert play(env, "go to sinkbasin 1")[0].startswith("You arrive at loc ")
    assert env.step("move apple 3 to fridge 1")[4]["invalid_reason"].startswith("this game puts things down with 'put")


# -- snapshots, many environments ------------------------------------------------------------------------------------
@given(seed=st.integers(0, 1_000), walk=st.integers(0, 1_000), steps=st.integers(0, 30))
def test_a_snapshot_continues_in_another_environment_as_if_nothing_had_happened(
    seed: int, walk: int, steps: int
) -> None:
    first, second = (ALFWorldEnv(observation="augmented", text_key="graphgpo") for _ in range(2))
    info = wander(first, walk, steps, first.reset(seed=seed)[1])
    observation, restored = second.set_state(first.get_state())
    for key in ("task_id", "state_key", "text_key", "admissible_actions", "elapsed_steps", "won"):
        assert restored[key] == info[key]
    assert second.get_state() == first.get_state()
    for command in info["admissible_actions"][:1]:
        assert second.step(command) == first.step(command)
    assert isinstance(observation, str)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "{" * 10_000, '{"format":"alfworld/1"}', '{"format":"alfworld/2","game":{}}', 5, None],
)
def test_what_is_no_snapshot_is_refused(text: object) -> None:
    with pytest.raises(DataError, match="snapshot"):
        ALFWorldEnv().set_state(text)  # type: ignore[arg-type]  # no text: the mistake under test


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("world", [10**6, -1, ["0"] * 6, [], [], []]),
        ("world", [0, 0, ["0"] * 5, [], [], []]),
        ("world", [0, 0, ["-1"] * 6, [], [], []]),
        ("world", [0, 0, ["f" * 400] * 6, [], [], []]),
        ("world", None),
        ("story", [1, 2, 3]),
        ("story", [None, "", 10**6, []]),
        ("steps", -1),
        ("steps", True),
        ("past", "look"),
        ("syntax", "shout"),
    ],
)
def test_a_forged_snapshot_is_refused(key: str, value: object) -> None:
    env = ALFWorldEnv()
    env.reset(seed=1)
    data = json.loads(env.get_state())
    with pytest.raises(DataError, match="snapshot"):
        env.set_state(json.dumps({**data, key: value}, separators=(",", ":")))


def test_a_snapshot_of_another_syntax_is_refused() -> None:
    env = ALFWorldEnv(syntax="put")
    env.reset(seed=1)
    with pytest.raises(DataError, match="syntax"):
        ALFWorldEnv().set_state(env.get_state())


def test_threads_play_the_same_games_alike() -> None:
    """One parsed game, many threads: shared tables are filled by all of them at once."""

    def episode(seed: int) -> list[str]:
        env = ALFWorldEnv(data_path=DATA, split="train")
        keys = []
        _, info = env.reset(seed=seed % 4)
        rng = np.random.default_rng(seed % 4)
        for _ in range(45):
            actions = info["admissible_actions"]
            if not actions:
                break
            *_, info = env.step(actions[int(rng.integers(len(actions)))])
            keys.append(f"{info['state_key']} {env.oracle.distance(env.get_state())} {len(actions)}")
        return keys

    with ThreadPoolExecutor(8) as pool:
        played = list(pool.map(episode, range(32)))
    for seed in range(4):
        assert all(keys == played[seed] for keys in played[seed::4])


def test_a_thousand_environments_share_one_parsed_game() -> None:
    envs = [ALFWorldEnv(game=KITCHEN) for _ in range(3)] + [ALFWorldEnv(data_path=DATA) for _ in range(1_000)]
    for env in envs:
        env.reset(seed=8)
    assert len({id(env.world.game) for env in envs[:3]}) == 1
    assert len({id(env.world.game) for env in envs[3:]}) == 1
    assert len({id(env.tasks) for env in envs[3:]}) == 1


def test_vector_environments_run_text() -> None:
    envs = creditflow.make_vec("alfworld", 3, split="valid_seen")
    observations, infos = envs.reset(seed=[1, 1, 2])
    assert observations[0] == observations[1] != observations[2]
    assert infos["state_key"][0] == infos["state_key"][1]
    envs.step(("look", "look", "look"))
    envs.close()


def test_facts_and_the_drawn_picture_follow_the_state() -> None:
    env = ALFWorldEnv(game=KITCHEN, render_mode="ansi")
    env.reset()
    play(env, *APPLE)
    assert {"holds(agent, apple 3)", "isclean(apple 3)", "opened(fridge 1)"} <= set(env.facts())
    assert "apple 3 [cleaned]" in str(env.render())
