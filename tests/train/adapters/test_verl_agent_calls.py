"""What the environment manager shows verl-agent's loop, and the calls and settings that it rejects."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.trainers.verl_agent_loop import batch, play
from helpers.trainers.verl_agent_runs import (
    ENVS,
    GROUPS,
    SIZE,
    STEPS,
    by_our_engine,
    config_of,
    replayed,
)
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, TrajectoryError
from creditflow.train.adapters.text_episode import MAX_CHARACTERS
from creditflow.train.adapters.verl_agent.advantage import (
    Anchor,
    PlayedGroup,
    compute_gigpo_outcome_advantage,
    recorded_steps,
)
from creditflow.train.adapters.verl_agent.environments import TaskOrder, loop_settings, make_envs


def test_groups_start_alike_and_prompts_show_the_last_turns() -> None:
    manager = make_envs(config_of())[0]
    obs, infos = manager.reset()
    assert obs["image"] is None
    for i in range(0, GROUPS * SIZE, SIZE):
        assert len({*obs["text"][i : i + SIZE]}) == len({*obs["anchor"][i : i + SIZE]}) == 1
        assert len({info["task_id"] for info in infos[i : i + SIZE]}) == 1
    assert len({info["task_id"] for info in infos}) == GROUPS
    shown = []
    for word in ("up", "down", "left", "right"):
        obs, rewards, dones, infos = manager.step([f"<think>t</think><action>{word}</action>"] * (GROUPS * SIZE))
        shown.append(obs["text"][0])
        assert obs["text"] == manager.build_text_obs()
        assert rewards.dtype == np.float32
        assert all(info["is_action_valid"].shape == () for info in infos)
    if not dones[0]:
        assert "[step 3] done: left\n" in shown[3]
        assert "[step 4] done: right\n" in shown[3]
        assert "[step 2]" not in shown[3]


def test_long_prompts_show_fewer_past_turns() -> None:
    word = "<think>t</think><action>up</action>"
    texts = {}
    for limit in (0, 900, 1):
        manager = make_envs(config_of(max_characters=limit))[0]
        manager.reset()
        for _ in range(3):
            obs, *_ = manager.step([word] * (GROUPS * SIZE))
        texts[limit] = obs["text"][0]
    assert texts[0].count("] seen:") == 2
    assert texts[1].count("] seen:") == 0
    assert len(texts[1]) <= len(texts[900]) <= len(texts[0])


def test_validation_plays_the_same_first_tasks_every_time_and_reports_types() -> None:
    _, valid = make_envs(config_of("alfworld"))
    seen = []
    for _ in range(2):
        rows = play(valid, lambda *_: "<think>t</think><action>look</action>", size=1, max_steps=STEPS)
        seen.append([valid._slots[i].task_id for i in range(2)])
        kinds = [name for name in rows.success[-1] if name not in ("success_rate", "score (beside success_rate)")]
        assert sum(len(rows.success[-1][name]) for name in kinds) == 2
        assert all("success_rate" in name for name in rows.success[-1])
    assert seen[0] == seen[1]


def test_the_data_set_may_name_the_tasks() -> None:
    manager = make_envs(config_of())[0]
    tasks = manager._tasks.draw()[:2]
    named = [{"task_id": task.task_id} for task in tasks for _ in range(SIZE)]
    _, infos = manager.reset(kwargs=np.array(named, object))
    assert [info["task_id"] for info in infos[::SIZE]] == [task.task_id for task in tasks]
    content, task_id = dict(tasks[1].content), tasks[1].task_id
    for whole in (
        {"task": content},
        {"task": json.dumps(content)},
        {"task": content, "task_id": task_id},
        {"task": None, "task_id": task_id, "golden_answers": np.array(["a", "b"])},  # as read from parquet
    ):
        assert manager.reset(kwargs=[dict(whole) for _ in range(SIZE)])[1][0]["task_id"] == task_id
    for wrong, message in (
        ([{"question": "q"}] * SIZE, "env_kwargs 0 names no task"),
        ([*named[:3], named[-1]], "name different tasks"),
        (named[:3], "no whole groups of 4"),
        ([], "no whole groups of 4"),
        (["x"] * SIZE, "names no task"),
        ([None] * SIZE, "names no task"),
        ([{"task_id": None}] * SIZE, "names no task"),
        (
            [{"task": content, "task_id": tasks[0].task_id}] * SIZE,
            f"env_kwargs 0: the task is '{task_id}', not '{tasks[0].task_id}'",
        ),
        ([{"task": "{"}] * SIZE, "env_kwargs 0: not JSON"),
    ):
        with pytest.raises(DataError, match=message):
            manager.reset(kwargs=wrong)


def test_wrong_calls_are_rejected_with_the_reason() -> None:
    manager = make_envs(config_of())[0]
    with pytest.raises(EpisodeError, match="reset"):
        manager.step(["up"])
    manager.reset()
    calls: list[tuple[Any, str]] = [
        (["up"], "for each of the 12 episodes, got 1"),
        ("up" * 6, "for each of the 12 episodes, got 'upup"),
        ([None] * 12, "completion 0 must be a text, got None"),
        ([*["up"] * 11, b"up"], "completion 11 must be a text"),
    ]
    for wrong, message in calls:
        with pytest.raises(ConfigError, match=message):
            manager.step(wrong)


def test_admissible_commands_are_the_environments_unless_they_reveal_the_answer() -> None:
    for env, reveals in (("alfworld", False), ("wikisearch", True)):
        manager = make_envs(config_of(env))[0]
        _, infos = manager.reset()
        listed = [slot.episode.info["admissible_actions"] for slot in manager._slots if slot.episode is not None]
        assert all(listed)
        assert [info["admissible_commands"] for info in infos] == [[] if reveals else list(one) for one in listed]


def test_an_overlong_completion_is_an_invalid_action() -> None:
    manager = make_envs(config_of(scheme="gigpo"))[0]
    manager.reset()
    long = "<think>" + "x" * MAX_CHARACTERS + "</think><action>up</action>"
    obs, _, _, infos = manager.step([long] * (GROUPS * SIZE))
    assert not any(info["is_action_valid"] for info in infos)
    manager._end_rollout()
    turn = obs["anchor"][0].played.group.turns[0]
    assert "more than 100000" in turn.invalid_reason
    assert not turn.response


def test_anchors_without_their_record_and_groups_that_do_not_fit_are_rejected() -> None:
    config = config_of(scheme="gigpo")
    manager = make_envs(config)[0]
    rows = replayed(manager, by_our_engine(config)[1])
    data, places = batch(rows, penalty=0.1, multiple=1, seed=0)
    columns = data.non_tensor_batch
    elsewhere = [cls(*arguments) for cls, arguments in (anchor.__reduce__() for anchor in columns["anchor_obs"])]
    for spoil, message in (
        (
            {"anchor_obs": np.array(elsewhere, object)},
            "without a record",
        ),
        ({"uid": np.array([f"{place[1] // 2}" for place in places], object)}, "group size of the manager"),
        ({"uid": np.array(["one"] * len(places), object)}, "do not belong together"),
        ({"traj_uid": np.array(["one"] * len(places), object)}, "do not belong together"),
    ):
        data.non_tensor_batch = {**columns, **spoil}
        with pytest.raises(TrajectoryError, match=message):
            manager.compute_advantage(data)
    data.non_tensor_batch = {name: column for name, column in columns.items() if name != "traj_uid"}
    with pytest.raises(TrajectoryError, match="the batch has no traj_uid; it has"):
        manager.compute_advantage(data)
    data.non_tensor_batch = columns
    data.batch["token_level_rewards"] = data.batch["token_level_rewards"] - 0.01
    with pytest.raises(TrajectoryError, match="use_kl_in_reward"):
        manager.compute_advantage(data)
    running = PlayedGroup("g")
    with pytest.raises(TrajectoryError, match="still being played"):
        recorded_steps(["u"], ["t"], [Anchor("s", running, member=0, turn=0)])


def test_the_forks_own_estimator_takes_our_anchors() -> None:
    manager = make_envs(config_of())[0]
    rows = play(
        manager, lambda i, *_: f"<think>t</think><action>{['up', 'down'][i % 2]}</action>", size=SIZE, max_steps=STEPS
    )
    data, _ = batch(rows, penalty=0.1, multiple=1, seed=0)
    columns = data.non_tensor_batch
    arguments = [
        data.batch["token_level_rewards"], columns["rewards"], data.batch["response_mask"], columns["anchor_obs"],
        columns["uid"], columns["traj_uid"],
    ]  # fmt: skip
    advantages, _ = compute_gigpo_outcome_advantage(*arguments)
    arguments[3] = np.array([str.__str__(anchor) for anchor in columns["anchor_obs"]], object)
    np.testing.assert_array_equal(advantages, compute_gigpo_outcome_advantage(*arguments)[0])


@pytest.mark.parametrize("env", ENVS)
def test_presets_are_the_settings_of_our_recipes(env: str) -> None:
    from pathlib import Path

    import creditflow.train.configs
    from creditflow.train.settings.reading import load_mapping

    recipe = load_mapping(Path(creditflow.train.configs.__file__).parent / f"gigpo_{env}.yaml")
    made = loop_settings(config_of(env, panel=None, valid_panel=None))
    options = {name: value for name, value in recipe["env"]["options"].items() if name != "max_steps"}
    assert {"panel": made.panel, **made.options} == options
    assert made.valid_panel == recipe["evaluation"]["panel"]
    assert (made.prompt, made.dialect) == (recipe["prompting"]["prompt"], recipe["prompting"]["dialect"])
    assert made.invalid_actions == recipe["env"]["invalid_actions"]


def test_without_a_scheme_the_forks_estimator_is_taken_with_its_own_numbers() -> None:
    config = config_of(penalty=0.3)
    made = make_envs(config)[0].scheme
    assert made == credit.make(
        "gigpo", semantics="release", discount=0.95, outcome_scale="none", step_scale="none", invalid_penalty=0.3
    )
    config["algorithm"].update(adv_estimator="grpo", norm_adv_by_std_in_grpo=False)
    config["actor_rollout_ref"]["actor"]["use_invalid_action_penalty"] = False
    assert make_envs(config)[0].scheme == credit.make(
        "grpo", semantics="release", outcome_scale="none", invalid_penalty=0.0
    )
    config["algorithm"]["gigpo"].update(enable_similarity=True, similarity_thresh=0.9)
    config["algorithm"]["adv_estimator"] = "gigpo"
    similar: Any = make_envs(config)[0].scheme
    assert similar.similarity == 0.9


def changed(path: str, value: Any, **settings: Any) -> dict[str, Any]:
    config = config_of(**settings)
    *folders, name = path.split(".")
    inside = config
    for folder in folders:
        inside = inside[folder]
    inside[name] = value
    return config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (changed("env.env_name", "gym_cards/Points24"), "unknown environment .*gym_cards"),
        (changed("env.creditflow.name", "sokobann"), "did you mean 'sokoban'"),
        (changed("env.creditflow.promt", "think-v1"), "did you mean 'prompt'"),
        (changed("env.sokoban", {"mode": "rgb_array"}), "this manager shows text"),
        (changed("env.rollout.n", 1.5), r"env\.rollout\.n must be an integer"),
        (changed("env.max_steps", None), r"env\.max_steps must be an integer of at least 1, got None"),
        (changed("env.history_length", -1), r"env\.history_length must be"),
        (changed("data.train_batch_size", 10**6), r"1000000 groups need as many tasks"),
        (changed("algorithm.adv_estimator", "gae"), "keep one of these"),
        (changed("algorithm.gigpo.mode", "mean"), "'mean_norm' or 'mean_std_norm'"),
        (changed("algorithm.creditflow", {"scheme": "graphgpoo"}), "did you mean 'graphgpo'"),
        (changed("algorithm.creditflow", {"scheme": "pica"}), "which annotators write"),
        (changed("env.creditflow.invalid_actions", "penalise"), "value of env.creditflow.invalid_actions"),
        (changed("env.creditflow.threads", -1), "at least 0"),
    ],
)
def test_settings_that_cannot_work_are_rejected(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_envs(config)


@given(seed=st.integers(0, 99), count=st.integers(1, 7), draws=st.integers(1, 9))
def test_every_task_is_played_before_one_comes_again(seed: int, count: int, draws: int) -> None:
    source: Any = SimpleNamespace(task_ids=lambda: tuple("abcdefg"), get=lambda name: name)
    order = TaskOrder(source, count, seed, fixed=False)
    again = TaskOrder(source, count, seed, fixed=False)
    drawn: list[Any] = [order.draw() for _ in range(draws)]
    assert drawn == [again.draw() for _ in range(draws)]
    assert all(len(set(tasks)) == count for tasks in drawn)
    played = [name for tasks in drawn for name in tasks]
    counts = [played.count(name) for name in "abcdefg"]
    assert max(counts) - min(counts) <= 2  # the round that began early leaves out the tasks just taken
    first: Any = TaskOrder(source, count, seed, fixed=True).draw()
    assert first == list("abcdefg")[:count]
