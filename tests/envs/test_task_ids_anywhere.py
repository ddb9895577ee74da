"""A task is reset by its id where the source lists it, and by id and payload on any worker."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from helpers.processes.child_process import output_of
from helpers.worlds.any_env import GENERATED, SOURCES, bare, made
from hypothesis import given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.agents import RandomAgent
from creditflow.envs import CreditflowError
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, UnknownTaskError
from creditflow.train.rollout import play_group
from creditflow.train.rollout.forks import fork_values
from creditflow.wrappers import GroupEnv, InvalidActions, Recorder
from creditflow.wrappers.group_env import member_seed
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl

JUNK: list[Any] = [True, 3, -1, 2.5, float("nan"), float("inf"), "x", b"x", [], {}, [[]], ["x"], {"x": 1}, {1: 2}, object(), set(), 10**400,
        ("a",), "x:y", "\ud800", "\0"]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**31))
def test_id_payload_and_both_start_the_same_episode(source, seed):
    env, other = made(source), made(source)
    drawn = env.reset(seed=seed)
    task_id, payload = drawn[1]["task_id"], json.loads(json.dumps(dict(env.task.content)))
    ways = [{"task": payload}, {"task_id": task_id, "task": payload}]
    if source not in GENERATED:
        ways.append({"task_id": task_id})
    for options in ways:
        begun = other.reset(seed=seed, options=options)
        if "ads" in source:  # advertisements are sampled from the episode's generator, as the task is
            assert (begun[1]["task_id"], begun[1]["state_key"]) == (task_id, drawn[1]["state_key"])
        else:
            assert begun == drawn


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from helpers.worlds.any_env import made
for line in sys.stdin:
    source, options, info = json.loads(line)
    assert json.loads(json.dumps(made(source).reset(seed=0, options=options)[1])).items() >= info.items(), source
    print(source)
"""


def test_generated_and_listed_tasks_can_be_reset_in_a_new_process():
    lines, wanted = [], []
    for source in SOURCES:
        env = made(source)
        for seed in (1, 2):
            _, info = env.reset(seed=seed)
            options = {"task_id": info["task_id"]}
            if source in GENERATED:
                with pytest.raises(UnknownTaskError, match=r"task_id.*payload"):
                    made(source).reset(options=options)
                options["task"] = dict(env.task.content)
            if "ads" in source:
                del info["text_key"]  # contains advertisements, which are sampled per episode
            lines.append(json.dumps([source, options, info]))
            wanted.append(source)
    assert output_of(CHILD, lines).split() == wanted


@pytest.mark.parametrize("source", SOURCES)
def test_a_payload_of_another_task_is_rejected(source):
    env = made(source)
    _, first = env.reset(seed=1)
    _, second = env.reset(seed=2)
    assert first["task_id"] != second["task_id"]
    with pytest.raises(DataError, match=r"payload of task"):
        env.reset(options={"task_id": first["task_id"], "task": dict(env.task.content)})
    assert env.task.task_id == second["task_id"]  # rejected, nothing has changed


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments_accept_the_payloads_of_their_tasks(mode):
    name, options = SOURCES["alfworld-generated"]
    envs: Any = creditflow.envs.make_vec(name, 2, vectorization_mode=mode, **options)
    try:
        _, infos = envs.reset(seed=3)
        tasks = envs.get_attr("task")
        assert [task.task_id for task in tasks] == list(infos["task_id"])
        options = {"task_id": tasks[1].task_id, "task": dict(tasks[1].content)}
        _, again = envs.reset(options=options)
        assert set(again["task_id"]) == {tasks[1].task_id}
    finally:
        envs.close()


@pytest.mark.parametrize("source", GENERATED)
def test_a_recorded_episode_of_a_generated_task_is_forked_by_an_environment_that_has_not_sampled_it(source):
    name, options = SOURCES[source]
    task = made(source).tasks.sample(np.random.default_rng(8))
    group = play_group(GroupEnv(name, size=2, max_steps=4, **options), RandomAgent(), task)
    log = io.StringIO()
    write_jsonl(log, [group])
    [group] = read_groups(io.StringIO(log.getvalue()))  # the log contains the payload
    member = group.trajectories[0]
    forks = fork_values(
        GroupEnv(name, size=2, max_steps=4, **options).members, RandomAgent(), member, np.random.default_rng(0),
        seed=member_seed(member.seed, member.group_id, member.replica), task=group.task,
    )  # fmt: skip
    assert forks.before.shape == (len(member.turns), 2)


@pytest.mark.parametrize("source", SOURCES)
def test_wrong_types_of_reset_options_and_payloads_are_named_errors(source):
    env = made(source)
    env.reset(seed=0)
    content = dict(env.task.content)
    for junk in JUNK:
        for options in ({"task_id": junk}, {"task": junk}, *({"task": {**content, key: junk}} for key in content)):
            try:
                env.reset(options=options)
            except CreditflowError as error:
                assert str(error)
    no_options: list[Any] = [True, 3, "x", [["task_id"]], b"x", object()]
    for junk in no_options:
        with pytest.raises(ConfigError, match="mapping"):
            env.reset(options=junk)


SIMPLE = {
    "sokoban": ["panel", "levels", "level", "generator", "obs_mode", "obs_keys", "action_mode", "n_actions", "moves_per_turn", "moves_policy", "max_moves", "reward", "max_steps",
                "symbols", "separator", "text_format", "grid_shape", "tile_size", "render_mode", "oracle_memory_mb"],
    "alfworld": ["panel", "data_path", "game", "split", "task_types", "observation", "text_key", "syntax", "reward",
                 "max_steps", "backend", "oracle_nodes", "render_mode"],
    "webshop": ["panel", "data", "goals", "split", "seed", "preset", "obs_mode", "reward", "max_steps", "ads",
                "ad_chance", "tagger", "render_mode"],
    "wikisearch": ["panel", "questions", "world", "corpus", "retriever", "file_format", "dialect", "top_k", "metric",
                   "max_steps", "max_calls", "max_tokens", "max_passage_chars", "oracle", "render_mode"],
}  # fmt: skip


@pytest.mark.parametrize("name", SIMPLE)
def test_wrong_types_of_arguments_are_named_errors(name):
    from creditflow.envs.registration import ENVIRONMENTS

    module, _, kind = ENVIRONMENTS[name].entry_point.partition(":")
    make = getattr(__import__(module, fromlist=[kind]), kind)
    for argument in SIMPLE[name]:
        for junk in JUNK:
            try:
                make(**{argument: junk})
            except CreditflowError as error:
                assert str(error)


@pytest.mark.parametrize(
    ("name", "argument", "keys"),
    [
        ("sokoban", "generator", ["height", "width", "boxes", "min_length", "max_length"]),
        ("wikisearch", "world", ["articles", "questions", "seed"]),
        ("alfworld", "game", ["seed", "split", "task_type", "room"]),
    ],
)
def test_wrong_types_of_generator_options_are_named_errors(name, argument, keys):
    whole = {"seed": 1} if name == "alfworld" else {}
    for key in keys:
        for junk in JUNK:
            if (key, junk) != ("seed", 3) and not (name == "wikisearch" and junk == 3):
                try:
                    creditflow.make(name, **{argument: {**whole, key: junk}})
                except CreditflowError as error:
                    assert str(error)


def test_the_recorder_rejects_steps_after_a_restore_that_bypassed_it():
    env = Recorder(creditflow.make("sokoban"))
    env.reset(seed=0)
    env.step("up")
    snapshot = env.base.get_state()
    fresh, again = Recorder(creditflow.make("sokoban")), Recorder(creditflow.make("sokoban"))
    again.reset(seed=1)
    again.step("up")  # as many steps as in the snapshot, but another state
    for moved in (env, fresh, again):
        moved.base.set_state(snapshot)
        with pytest.raises(EpisodeError, match="branch"):
            moved.step("up")


def test_a_snapshot_continues_after_the_invalid_action_policy_ended_an_episode():
    env = InvalidActions(creditflow.make("sokoban"), "terminate")
    env.reset(seed=0)
    base = bare(env)
    snapshot = base.get_state()
    assert env.step("nonsense")[2]
    with pytest.raises(EpisodeError, match="policy ended"):
        env.step("up")
    base.set_state(snapshot)
    assert env.step("up")[4]["elapsed_steps"] == 1
