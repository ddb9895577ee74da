"""The environment manager in a loop of verl-agent's shapes: its records are our engine's groups, its credit is theirs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from helpers.trainers.verl_agent_loop import Rows, batch, play
from helpers.trainers.verl_agent_runs import (
    ENVS,
    GROUPS,
    SIZE,
    STEPS,
    by_our_engine,
    config_of,
    moves,
    penalty_of,
    replayed,
)

from creditflow import credit
from creditflow.train.adapters.verl_agent.advantage import compute_advantages, recorded_steps
from creditflow.train.adapters.verl_agent.environments import make_envs
from creditflow.train.rollout.engine import NoGroupError
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.recorder import Recorder


@pytest.mark.parametrize("scheme", ["gigpo", "graphgpo", "rewardflow", "grouptd", "grpo"])
@pytest.mark.parametrize("env", ENVS)
def test_credit_in_the_loop_is_that_of_the_groups_our_engine_plays(env: str, scheme: str) -> None:
    config = config_of(env, scheme=scheme)
    groups, texts = by_our_engine(config)
    manager = make_envs(config)[0]
    rows = replayed(manager, texts)
    data, places = batch(rows, penalty=penalty_of(manager.scheme), multiple=17, seed=5)
    assert len(places) % 17 == 0 < len(places) - len(set(places))  # filler copies
    assert manager.compute_advantage(data, adv_estimator="gigpo", gamma=0.95) is data
    stepped = recorded_steps(*(data.non_tensor_batch[name] for name in ("uid", "traj_uid", "anchor_obs")))
    assert sorted(stepped.groups, key=lambda one: one.group_id) == sorted(groups, key=lambda one: one.group_id)
    parameters: dict[str, Any] = {"invalid_penalty": 0.1} if penalty_of(manager.scheme) else {}
    wanted = credit.make(scheme, **parameters).assign_batch(groups)
    mask = data.batch["response_mask"]
    for row, (_, episode, step) in enumerate(places):
        number = wanted[episode // SIZE].advantages[episode % SIZE][step]
        assert data.batch["advantages"][row].tolist() == (np.float32(number) * mask[row]).tolist()
    assert (data.batch["returns"] == data.batch["advantages"]).all()
    assert data.batch["advantages"].any()
    outcomes = [member.success for group in groups for member in group.trajectories]
    assert rows.success[0]["success_rate"].tolist() == [float(won) for won in outcomes]


def test_the_rollouts_of_the_test_have_what_it_is_about() -> None:
    lengths, invalid, won = set(), 0, set()
    for env in ENVS:
        groups, _ = by_our_engine(config_of(env))
        lengths |= {len(member.turns) for group in groups for member in group.trajectories}
        invalid += sum(not turn.valid for group in groups for turn in group.turns)
        won |= {member.success for group in groups for member in group.trajectories}
    assert min(lengths) < STEPS == max(lengths)
    assert invalid > 20
    assert won == {True, False}


@pytest.mark.parametrize("semantics", ["paper", "release"])
@pytest.mark.parametrize("scheme", ["gigpo", "grpo"])
def test_the_drop_in_over_columns_gives_the_same_where_it_knows_the_steps(scheme: str, semantics: str) -> None:
    config = config_of(scheme=scheme)
    config["algorithm"]["creditflow"]["semantics"] = semantics
    config["algorithm"]["creditflow"]["parameters"] = {"key": "state"} if scheme == "gigpo" else {}
    manager = make_envs(config)[0]
    rows = replayed(manager, by_our_engine(config)[1])
    data, places = batch(rows, penalty=0.1, multiple=8, seed=1)
    manager.compute_advantage(data)
    data.non_tensor_batch["step"] = np.array([step for *_, step in places], object)
    advantages, _ = compute_advantages(data, scheme=manager.scheme)
    np.testing.assert_array_equal(advantages, data.batch["advantages"])


def test_rows_that_were_dropped_change_no_other_rows() -> None:
    config = config_of(scheme="graphgpo")
    manager = make_envs(config)[0]
    rows = replayed(manager, by_our_engine(config)[1])
    data, places = batch(rows, penalty=0.1, multiple=1, seed=1)
    manager.compute_advantage(data)
    kept = np.arange(len(places)) % 3 > 0
    fewer = copy.copy(data)
    fewer.batch = {name: column[kept] for name, column in data.batch.items()}
    fewer.non_tensor_batch = {name: column[kept] for name, column in data.non_tensor_batch.items()}
    manager.compute_advantage(fewer)
    np.testing.assert_array_equal(fewer.batch["advantages"], data.batch["advantages"][kept])


def test_rows_of_several_rollouts_keep_their_groups() -> None:  # as dynamic sampling collects them
    config = config_of(scheme="gigpo")
    manager = make_envs(config)[0]
    rows = Rows()
    directions = np.random.default_rng(0).integers(4, size=(2, GROUPS * SIZE, STEPS))
    for which in directions:
        play(manager, moves(which), size=SIZE, max_steps=STEPS, into=rows)
    data, places = batch(rows, penalty=0.1, multiple=8, seed=2)
    manager.compute_advantage(data)
    stepped = recorded_steps(*(data.non_tensor_batch[name] for name in ("uid", "traj_uid", "anchor_obs")))
    assert len(stepped.groups) == 2 * GROUPS
    assert {group.group_id.rsplit("#", 1)[1] for group in stepped.groups} == {"0", "1"}
    wanted = {group.group_id: credit.make("gigpo", invalid_penalty=0.1).assign(group) for group in stepped.groups}
    for row, (_, episode, step) in enumerate(places):
        name = stepped.groups[stepped.group[row]].group_id
        number = wanted[name].advantages[episode % SIZE][step]
        assert data.batch["advantages"][row, 0] == np.float32(number)


def test_an_environment_that_fails_ends_its_episode_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Recorder.step

    def fails(self: Recorder, action: Any) -> Any:
        if self.identity["replica"] == 1 and len(self.turns) == 2:
            raise OSError("the retrieval server is gone")
        return step(self, action)

    config = config_of(scheme="gigpo")
    monkeypatch.setattr(Recorder, "step", fails)
    groups, texts = by_our_engine(config)
    manager = make_envs(config)[0]
    rows = replayed(manager, texts)
    failed = [member for group in groups for member in group.trajectories if member.stop_reason == "env_error"]
    assert failed
    assert all(member.replica == 1 and len(member.turns) == 2 for member in failed)
    data, places = batch(rows, penalty=0.1, multiple=4, seed=3)
    manager.compute_advantage(data)
    wanted = credit.make("gigpo", invalid_penalty=0.1).assign_batch(groups)
    for row, (_, episode, step_) in enumerate(places):
        numbers = wanted[episode // SIZE].advantages[episode % SIZE]
        number = numbers[step_] if step_ < len(numbers) else 0.0  # the turn in which it failed
        assert data.batch["advantages"][row, 0] == np.float32(number)


def test_a_group_that_cannot_start_ends_at_once_with_zero_advantages(monkeypatch: pytest.MonkeyPatch) -> None:
    reset, lost = GroupEnv.reset, make_envs(config_of())[0]._tasks.draw()[1].task_id

    def fails(self: GroupEnv, **options: Any) -> Any:
        if options["group_id"].startswith(lost):
            raise OSError("the game server is gone")
        return reset(self, **options)

    monkeypatch.setattr(GroupEnv, "reset", fails)
    manager = make_envs(config_of(scheme="gigpo"))[0]
    rows = play(manager, lambda *_: "<think>t</think><action>up</action>", size=SIZE, max_steps=STEPS)
    of_lost = [place for place in rows.places if place[1] // SIZE == 1]
    assert sorted(of_lost) == [(0, SIZE + i, 0) for i in range(SIZE)]
    data, places = batch(rows, penalty=0.1, multiple=1, seed=0)
    manager.compute_advantage(data)
    assert not any(data.batch["advantages"][row].any() for row, place in enumerate(places) if place in of_lost)

    def all_fail(self: GroupEnv, **options: Any) -> Any:
        raise OSError("the game server is gone")

    monkeypatch.setattr(GroupEnv, "reset", all_fail)
    with pytest.raises(NoGroupError, match="the game server is gone"):
        manager.reset()


def test_threads_change_nothing() -> None:
    config = config_of("wikisearch", scheme="gigpo")
    texts = by_our_engine(config)[1]
    found = []
    for threads in (0, 3):
        manager = make_envs(config_of("wikisearch", scheme="gigpo", threads=threads))[0]
        data, _ = batch(replayed(manager, texts), penalty=0.1, multiple=8, seed=4)
        found.append(manager.compute_advantage(data).batch["advantages"])
        manager.close()
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("env", ENVS)
def test_the_loop_gets_the_fields_and_types_of_its_own_manager(env: str) -> None:
    manager = make_envs(config_of(env))[0]
    count = GROUPS * SIZE
    obs, infos = manager.reset()
    rewards, dones = np.zeros(count, np.float32), np.zeros(count, bool)
    for text in ("nothing", None, None):
        assert set(obs) == {"text", "image", "anchor"}
        assert (type(obs["text"]), len(obs["text"]), len(obs["anchor"]), obs["image"]) == (list, count, count, None)
        assert all(isinstance(one, str) and one for one in obs["text"])
        assert (str(rewards.dtype), str(dones.dtype)) == ("float32", "bool")
        assert rewards.shape == dones.shape == (count,)
        for info in infos:
            assert (type(info["won"]), info["is_action_valid"].dtype, type(info["task_score"])) == (
                bool,
                np.bool_,
                float,
            )
            assert all(isinstance(command, str) for command in info["admissible_commands"])
            assert isinstance(info["tool_calling"], int)
        assert all(info["admissible_commands"] for info in infos) == (env != "wikisearch")
        listed = [info["admissible_commands"] for info in infos]
        texts = [text or f"<think>t</think><action>{(one or ['search: a'])[0]}</action>" for one in listed]
        obs, rewards, dones, infos = manager.step(texts)
    found = manager.success_evaluator(
        total_infos=[[info] for info in infos], total_batch_list=[[{"active_masks": True}] for _ in infos]
    )
    assert found["success_rate"].shape == (count,)
