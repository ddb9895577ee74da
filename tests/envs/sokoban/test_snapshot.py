"""Snapshots: self-contained, exact, and validated."""

from __future__ import annotations

import json

import numpy as np
import pytest

from creditflow.envs.errors import ConfigError, DataError, EpisodeError
from creditflow.envs.sokoban import SokobanEnv

ROOM = "#######\n#  .  #\n# $ @ #\n#  $ .#\n#######"
POCKET = "#########\n#@$ .##*#\n#########"
GOOD = {"format": "sokoban/1", "level": ROOM, "player": 18, "boxes": [16, 24], "steps": 3}


def make(**kwargs):
    env = SokobanEnv(level=ROOM, **kwargs)
    env.reset()
    return env


def test_the_snapshot_format_is_pinned():
    env = make()
    env.step("up")
    assert json.loads(env.get_state()) == {**GOOD, "player": 11, "steps": 1}


def test_a_solved_snapshot_is_over():
    env = SokobanEnv(level="#####\n#@$.#\n#####")
    env.reset()
    env.step("right")
    _, info = env.set_state(env.get_state())
    assert info["success"]
    assert info["admissible_actions"] == ()
    with pytest.raises(EpisodeError):
        env.step("left")


def test_a_snapshot_at_the_step_limit_is_over_and_one_before_it_continues():
    env = make(max_steps=4)
    _, info = env.set_state(json.dumps(GOOD))
    assert info["admissible_actions"]
    assert env.step("up")[3]
    _, info = env.set_state(json.dumps({**GOOD, "steps": 4}))
    assert info["admissible_actions"] == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "nan",
        "[" * 100_000,
        "9" * 5000,
        "{" * 30_000,
        "x" * 10**6,
        None,
        5,
        b"{}",
        "\ud800",
        *(
            json.dumps({**GOOD, **change})
            for change in (
                {"format": "sokoban/2"},
                {"extra": 1},
                {"level": 5},
                {"level": "#####\n#@  #\n#####"},
                {"level": "\n" * 30_000},
                {"player": -1},
                {"player": 10**9},
                {"player": True},
                {"player": 18.0},
                {"player": 0},
                {"player": 16},
                {"boxes": [16]},
                {"boxes": [16, 16]},
                {"boxes": [16, 24, 25]},
                {"boxes": [0, 16]},
                {"boxes": "16"},
                {"boxes": [16, None]},
                {"boxes": [[16], 24]},
                {"steps": -1},
                {"steps": 2**60},
                {"steps": "3"},
                {"steps": False},
            )
        ),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_values_that_are_not_snapshots_are_data_errors_and_change_nothing(text):
    env = make()
    env.step("up")
    before = env.get_state()
    with pytest.raises(DataError) as caught:
        env.set_state(text)
    assert len(str(caught.value)) < 400
    assert env.get_state() == before
    env.step("down")


def test_boxes_outside_the_room_cannot_have_moved():
    env = SokobanEnv(level=POCKET)
    env.reset()
    good = json.loads(env.get_state())
    assert good["boxes"] == [11, 16]
    env.set_state(json.dumps({**good, "boxes": [12, 16]}))
    with pytest.raises(DataError, match="outside the player's room"):
        env.set_state(json.dumps({**good, "boxes": [11, 12]}))


def test_a_snapshot_too_large_for_the_arrays_is_rejected_and_changes_nothing():
    env = make(obs_mode="grid", action_mode="discrete")
    big = SokobanEnv(level="##########\n#@$.     #\n##########")
    big.reset()
    before = env.get_state()
    with pytest.raises(ConfigError, match="grid_shape"):
        env.set_state(big.get_state())
    assert env.get_state() == before
    assert np.array_equal(env.step(0)[0].shape, (5, 7))
