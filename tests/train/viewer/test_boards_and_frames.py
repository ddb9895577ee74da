"""Boards and frames of a page: it draws no board that was not recorded, and each frame once."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from helpers.servers.browser import rendered_dom
from PIL import Image

import creditflow
from creditflow.envs.errors import DataError
from creditflow.envs.sokoban.render import Painter
from creditflow.envs.sokoban.rules import grid, state_key
from creditflow.train.cli import main
from creditflow.train.viewer import pictures
from creditflow.train.viewer.boards import board_of_codes, group_boards
from creditflow.train.viewer.data import render_page, view_data
from creditflow.wrappers import Group, GroupEnv, Trajectory, Turn, credit, write_jsonl

LEVEL = "#######\n#  .  #\n# $ @ #\n#  $ .#\n#######"
HOSTILE = "</script><img src=x onerror=\"document.title='pwned'\"><![x[ [button] [SEP] {\u2028"


def played(seed, agent_words=("up", "down", "left", "right"), **kwargs):
    rng = np.random.default_rng(seed)
    group = GroupEnv(lambda: creditflow.make("sokoban", level=LEVEL, **kwargs), size=3)
    group.reset(seed=seed)
    m = kwargs.get("moves_per_turn", 1)
    for _ in range(12):
        if not group.active:
            break
        if kwargs.get("action_mode") == "discrete":
            group.step({i: int(rng.integers(4)) for i in group.active})
        else:
            group.step({i: " ".join(rng.choice(agent_words, size=rng.integers(1, m + 1))) for i in group.active})
    return group


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"symbols": "xsb", "separator": "|"},
        {"text_format": "coordinates"},
        {"obs_mode": "rgb", "action_mode": "discrete"},
        {
            "n_actions": 9,
            "agent_words": ("push up", "move left", "no operation", "push down", "push right", "push left"),
        },
        {
            "n_actions": 9,
            "moves_per_turn": 4,
            "agent_words": ("push up", "move left", "move up", "move down", "push right", "move right"),
        },
        {"moves_per_turn": 4},
        {"moves_per_turn": 4, "moves_policy": "prefix", "agent_words": ("up", "left", "right", "down", "jump")},
    ],
    ids=str,
)
def test_every_state_of_a_sokoban_log_has_its_board(kwargs):
    for seed in range(3):
        members = played(seed, max_steps=12, **kwargs).group()
        boards = group_boards(members)
        for turn in members.turns:
            for key in (turn.state_key, turn.next_state_key):
                assert state_key(boards[key]) == key


def test_a_move_that_may_not_push_is_replayed_so():
    group = GroupEnv(
        lambda: creditflow.make("sokoban", level=LEVEL, n_actions=9, moves_per_turn=3, max_steps=1), size=1
    )
    group.reset(seed=0)
    group.step({0: "move left move left push up"})  # the second is a bump into a box
    (turn,) = group.group().turns
    assert turn.next_state_key in group_boards(group.group())


def test_boards_that_do_not_follow_from_the_level_are_not_drawn():
    turns = (Turn("unknown", "up", "other"), Turn("other", "\ud800" * 9000, "unknown"))
    trajectory = Trajectory("t", "g", "sokoban1:x", turns, False, 0.0, "env_limit", "unknown")
    assert "unknown" not in group_boards(Group((trajectory,), {"xsb": LEVEL}))
    for task in ({}, {"xsb": "#"}, {"xsb": 7}, {"xsb": "\x00" * 9999}):
        assert group_boards(Group((trajectory,), task)) == {}


def test_the_page_draws_the_tiles_of_the_environment():
    group = played(0, max_steps=12).group()
    data = view_data([group], {"grpo": credit.make("grpo")}, "title")
    with Image.open(io.BytesIO(base64.b64decode(data["tiles"].partition(",")[2]))) as image:
        strip = np.asarray(image.convert("RGB"))
    assert np.array_equal(strip, Painter(28).paint(np.arange(7, dtype=np.uint8)[None]))
    turn = data["groups"][0]["rollouts"][0]["turns"][0]
    first = group_boards(group)[group.turns[0].state_key]
    assert (
        data["boards"][turn[7]] == board_of_codes(first) == "/".join("".join(map(str, row)) for row in grid(first, 7))
    )


def with_pictures(names):
    turns = tuple(Turn("a", "go", "a", images=(name,)) for name in names)
    return Group((Trajectory("t", "g", "task", turns, False, 0.0, "env_limit", "a"),))


def test_frames_are_in_the_page_once_within_a_limit_and_what_is_missing_is_counted(monkeypatch):
    frames = {str(n): np.random.default_rng(n).integers(0, 256, (20, 20, 3), np.uint8) for n in range(4)}

    def read(name):
        if name not in frames:
            raise DataError("missing")
        return frames[name]

    group = with_pictures(["0", "1", "0", "gone", "2"])
    data = view_data([group], {}, "title", read)
    assert (len(data["frames"]), data["frames_left_out"]) == (3, 1)
    assert [turn[9] for turn in data["groups"][0]["rollouts"][0]["turns"]] == [[0], [1], [0], [], [2]]
    monkeypatch.setattr(pictures, "MAX_FRAME_BYTES", len(data["frames"][0]) + 10)
    assert view_data([group], {}, "title", read)["frames_left_out"] == 3
    assert view_data([group], {}, "title")["frames"] == []


@pytest.mark.browser
def test_in_a_browser_boards_and_frames_are_shown_and_hostile_names_are_text(tmp_path):
    env = GroupEnv(
        lambda: creditflow.make("sokoban", level=LEVEL, obs_mode="dict", obs_keys=["text", "rgb"]),
        size=1, pictures=str(tmp_path / "log.pictures"),
    )  # fmt: skip
    env.reset(seed=0)
    for action in ("up", "left", HOSTILE):
        env.step({0: action})
    env.members[0].stop("env_error")
    log, out = tmp_path / "log.jsonl", tmp_path / "view.html"
    write_jsonl(log, [env.group()])
    assert main(["view", str(log), "--out", str(out), "--schemes", "grpo"]) == 0
    dom = rendered_dom(out, tmp_path / "profile")
    assert dom.count("<canvas") == 6
    assert 'alt="picture shown to the agent"' in dom
    assert "<title>creditflow view: log.jsonl</title>" in dom

    turn = Turn(
        "a",
        HOSTILE,
        "b",
        observation=f"Results for: {HOSTILE}\n[1] {HOSTILE}: {HOSTILE}",
        entities=(HOSTILE,),
        queries=(HOSTILE,),
    )
    group = Group((Trajectory("t", "g", "wikisearch1:x", (turn,), False, 0.0, "failed", "b"),), {"answers": [HOSTILE]})
    out.write_text(render_page(view_data([group], {"grpo": credit.make("grpo")}, "fine")), encoding="ascii")
    dom = rendered_dom(out, tmp_path / "profile")
    assert "onerror" in dom  # as text
    assert "<img" not in dom
    assert "<title>fine</title>" in dom
