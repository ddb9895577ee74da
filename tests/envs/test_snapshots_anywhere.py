"""Any snapshot restores in any instance and any process, before any reset and after any number of other tasks."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.hostile_files import worse_file
from helpers.processes.child_process import output_of
from helpers.worlds.any_env import SOURCES, bare, made, walk
from hypothesis import given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.envs import env_id
from creditflow.envs.alfworld.game_files.content import validate_content
from creditflow.envs.errors import CreditflowError, EpisodeError

JUNK: list[Any] = [None, 3, b"x", [], {}, [[]], set(), "", "{}", "[]", "[" * 100_000, '{"format": 1}', "\ud800"]
USED = {source: made(source) for source in SOURCES}  # instances shared by all examples of a test


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**31), steps=st.integers(1, 8))
def test_a_snapshot_continues_in_another_instance_and_in_its_own(source, seed, steps):
    writer, used = made(source), USED[source]
    for snapshot, action, outcome in [*walk(writer, seed, steps)]:
        for reader in (writer, used, made(source)):
            reader.set_state(snapshot)
            assert reader.get_state() == snapshot
            assert reader.step(action) == outcome


@pytest.mark.parametrize("source", SOURCES)
def test_a_fresh_environment_restores_before_its_first_reset_with_all_wrappers_on(source):
    name, options = SOURCES[source]
    [*_, (snapshot, action, outcome)] = walk(made(source), 5, 3)
    for fresh in (creditflow.make(name, **options), gym.make(f"creditflow:{env_id(name)}", **options)):
        with pytest.raises(EpisodeError, match="reset"):
            fresh.step(action)
        bare(fresh).set_state(snapshot)
        assert fresh.step(action) == outcome


def test_a_snapshot_restores_after_hundreds_of_other_houses():
    """More tasks than any cache keeps, in random order, by id and by earlier snapshots."""
    env = bare(creditflow.make("alfworld", panel="standard-v1:all"))
    ids, rng, kept = env.tasks.task_ids(), np.random.default_rng(0), []
    for _ in range(900):
        env.reset(options={"task_id": ids[int(rng.integers(len(ids)))]})
        kept.append(env.get_state())
        for snapshot in (kept[-1], kept[int(rng.integers(len(kept)))]):
            env.set_state(snapshot)
            assert env.get_state() == snapshot


def test_equal_contents_in_another_order_of_keys_are_one_text():
    """Logs sort keys, files do not: a snapshot is the same text whichever of the two this process read first."""
    env = made("alfworld-generated")
    env.reset(seed=77)
    content = dict(env.task.content)
    turned = {key: content[key] for key in sorted(content)}
    turned["contain"] = dict(reversed(content["contain"].items()))
    assert json.dumps(turned) != json.dumps(content)
    assert json.dumps(validate_content(turned, "turned")) == json.dumps(content)


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from helpers.worlds.any_env import made
for line in sys.stdin:
    source, snapshot, action, outcome = json.loads(line)
    env = made(source)
    env.set_state(snapshot)
    assert env.get_state() == snapshot, source
    got = json.loads(json.dumps(env.step(action)))
    assert got == outcome, (source, got, outcome)
    print(source)
"""


def test_snapshots_continue_in_another_process():
    lines, wanted = [], []
    for source in SOURCES:
        for snapshot, action, outcome in [*walk(made(source), 11, 4)][1:]:
            lines.append(json.dumps([source, snapshot, action, outcome]))
            wanted.append(source)
    assert output_of(CHILD, lines).split() == wanted


@pytest.mark.parametrize("source", SOURCES)
def test_values_that_are_not_snapshots_are_named_errors(source):
    env = USED[source]
    for junk in JUNK:
        with pytest.raises(CreditflowError):
            env.set_state(junk)
        with pytest.raises(CreditflowError):
            env.oracle.distance(junk)


@pytest.mark.parametrize("source", SOURCES)
def test_a_damaged_snapshot_is_refused_or_is_a_whole_state(source):
    env = USED[source]
    *_, (good, _, _) = walk(made(source), 5, 4)
    refused = 0
    for number in range(60):
        damaged = worse_file(good.encode("utf-8"), np.random.default_rng([21, number])).decode("utf-8", "replace")
        try:
            _, info = env.set_state(damaged)
            value, none_left = env.oracle.value(env.get_state()), env.oracle.value(env.get_state(), steps_left=0)
        except CreditflowError:
            refused += 1
            continue
        assert env.set_state(env.get_state())[1] == info
        assert 0.0 <= none_left <= value <= 1.0
        if info["admissible_actions"]:
            env.step(env.action_from_text(info["admissible_actions"][-1]))
    assert refused
