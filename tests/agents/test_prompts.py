"""Prompts: versions are pinned, slots are filled, a wrong slot is an error."""

from __future__ import annotations

import hashlib
import json
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from creditflow.agents.base import View
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.prompts import PROMPTS, Prompt, make_prompt, slots_of
from creditflow.agents.prompts.template import TASK_TEXTS, around, places, task_text
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.group_env import GroupEnv

# a change of wording is a new version: add a template, do not edit one
PINNED = {
    "think-v1": "64075fd4b58154a2",
    "action-v1": "78ffc23d2abb7116",
    "look-v1": "a27b7061c2022a82",
    "glance-v1": "d798c0ae9c896747",
    "moves-v1": "1f298332d3fe19aa",
    "look-moves-v1": "edf8e8ec7870a29c",
    "react-v1": "09954bc5ce8d544f",
    "react-search-v1": "7c590005d37fd85e",
    "search-v1": "134ededed1aef92a",
    "tools-v1": "7a0a121850ba4769",
    "search-tool-v1": "7688ec7221b1e052",
    "reason-v1": "4408b8d70a336ee8",
    "terse-v1": "5df4e1f00e6c735f",
    "places-v1": "1b1d0e649490f6fc",
    "ragen-v1": "0dffe9b93ba9c54a",
    "around-v1": "1b27d33c4d64d648",
    "around-moves-v1": "ce6a7f309ed49852",
}
PINNED_TASKS = "2a1c21c692230058"


def digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode("ascii"), digest_size=8).hexdigest()


def test_template_texts_are_pinned() -> None:
    assert {name: digest(astuple(prompt)) for name, prompt in PROMPTS.items()} == PINNED
    assert digest(dict(TASK_TEXTS)) == PINNED_TASKS


def view_after(*actions: str) -> View:
    env = GroupEnv("sokoban", size=1, level="######\n#@ $.#\n######")
    [(observation, info)] = env.reset(seed=0)
    for action in actions:
        step = env.step({0: action})[0]
        observation, info = step.observation, step.info
    member = env.members[0]
    return View(observation, info, member.turns, member.base, np.random.default_rng(0))


def test_window_shows_only_the_last_turns() -> None:
    view = view_after("left", "left", "right")
    slots = slots_of(make_prompt("think-v1"), view, window=2)
    assert slots.step == "4"
    assert "[step 1]" not in slots.history
    assert "[step 2]" in slots.history
    assert "[step 3] done: right" in slots.history
    text = make_prompt("think-v1").fill("windowed", slots)
    assert view.observation in text
    assert "Sokoban" in text
    assert "{" not in text


def test_the_prompt_reports_a_rejected_action() -> None:
    text = make_prompt("think-v1").fill("later", slots_of(make_prompt("think-v1"), view_after("jump")))
    assert "The last action was refused: 'jump' is not an action" in text


def test_braces_in_observations_are_left_alone() -> None:
    prompt = Prompt("p", "", "{observation}", "", "")
    view = view_after()
    strange = View("{task} {x}", view.info, view.turns, view.env, view.rng)
    assert prompt.fill("first", slots_of(prompt, strange)) == "{task} {x}"


def test_an_unknown_slot_is_an_error() -> None:
    with pytest.raises(ConfigError, match="did you mean 'observation'"):
        Prompt("p", "", "{observatoin}", "", "")
    with pytest.raises(ConfigError, match=r"slot of p\.system 'image'"):
        Prompt("p", "{image}", "{image}", "", "")


def test_places_returns_a_text_that_is_not_a_grid_unchanged() -> None:
    assert places("You are in the kitchen.\nYou see a mug.") == "You are in the kitchen.\nYou see a mug."


def test_equal_places_are_equal_boards() -> None:
    assert places("# # # #\n# P X #\n# _ _ #\n# # # #") == places("####\n#PX#\n#__#\n####") == "Pa1 Xa2"


@pytest.mark.parametrize("env", ["sokoban", "alfworld", "webshop", "wikisearch"])
def test_a_windowed_prompt_repeats_the_task_in_every_environment(env: str) -> None:
    group = GroupEnv(env, size=1)
    [(observation, info)] = group.reset(seed=0)
    step = group.step({0: info["admissible_actions"][-1]})[0]
    member = group.members[0]
    view = View(step.observation, step.info, member.turns, member.base, np.random.default_rng(0))
    task = slots_of(make_prompt("search-v1" if env == "wikisearch" else "think-v1"), view, window=1).task
    assert task
    assert env == "sokoban" or task in observation


@pytest.mark.parametrize("name", ["search-v1", "tools-v1", "search-tool-v1", "react-search-v1", "reason-v1"])
def test_search_prompts_never_show_the_list_of_actions(name: str) -> None:
    prompt = make_prompt(name)
    assert "{actions}" not in "".join(astuple(prompt))
    assert all("{task}" in getattr(prompt, part) for part in ("first", "windowed"))


def test_a_prompt_does_not_list_actions_that_give_the_answer_away() -> None:
    env = GroupEnv("wikisearch", size=1, world={"articles": 200, "questions": 2, "seed": 3})
    [(observation, info)] = env.reset(seed=0)
    base = env.members[0].base
    while not (action := base.oracle.optimal_actions(base.get_state())[0]).startswith("answer"):
        step = env.step({0: action})[0]
        observation, info = step.observation, step.info
    assert action in info["admissible_actions"]
    view = View(observation, info, env.members[0].turns, base, np.random.default_rng(0))
    for prompt in PROMPTS.values():
        if prompt.shows_pictures and not prompt.lists_actions:
            continue  # this environment has no pictures
        if prompt.lists_actions:
            with pytest.raises(ConfigError, match="search-v1"):
                slots_of(prompt, view)
        else:
            slots = slots_of(prompt, view)
            assert not any(action in prompt.fill(part, slots) for part in ("first", "later", "windowed"))
    assert {prompt.name for prompt in PROMPTS.values() if prompt.lists_actions} == {
        "think-v1",
        "action-v1",
        "react-v1",
        "look-v1",
        "moves-v1",
        "look-moves-v1",
    }


@pytest.mark.parametrize("size", [(3, 3), (4, 6), (6, 5)])
def test_around_lists_offsets_from_the_player_wherever_it_stands(size: tuple[int, int]) -> None:
    rows, columns = size
    for row in range(rows):
        for column in range(columns):
            board = [["."] * columns for _ in range(rows)]
            board[row][column] = "A"
            goal = (0, 0) if (row, column) != (0, 0) else (rows - 1, columns - 1)
            board[goal[0]][goal[1]] = "G"
            listed = around("\n".join("".join(line) for line in board)).split(" ")
            down, right = goal[0] - row, goal[1] - column
            offset = (f"{'ud'[down > 0]}{abs(down)}" if down else "") + (
                f"{'lr'[right > 0]}{abs(right)}" if right else ""
            )
            assert f"G{offset}" in listed
            outside = sum(
                abs(r) + abs(c) in (1, 2) and not (0 <= row + r < rows and 0 <= column + c < columns)
                for r in range(-2, 3)
                for c in range(-2, 3)
            )
            assert sum(name.startswith("#") for name in listed) == outside


def test_around_shows_the_target_under_the_player_and_returns_other_texts_unchanged() -> None:
    assert around("####\n#S.#\n#X_#\n####").startswith("O Xd1")
    for text in ("no grid", "...\n...\n...", "A.A\n...\n..."):
        assert around(text) == text


def test_a_prompt_for_several_moves_names_their_number_and_its_answer_is_played() -> None:
    env = GroupEnv("sokoban", size=1, level="######\n#@ $.#\n######", moves_per_turn=4)
    [(observation, info)] = env.reset(seed=0)
    view = View(observation, info, (), env.members[0].base, np.random.default_rng(0))
    prompt = make_prompt("moves-v1")
    text = prompt.fill("first", slots_of(prompt, view))
    assert "at least one and at most 4 actions" in text
    action = make_dialect("think").parse("<think>near</think><action>right right</action>").action
    assert env.step({0: action})[0].info["move_rewards"] == (0.0, 1.0)


def test_the_task_explains_what_the_observation_shows() -> None:
    """Symbols of a text, the look of a picture, or both."""

    def task(**kwargs: Any) -> str:
        env = GroupEnv("sokoban", size=1, level="######\n#@ $.#\n######", **kwargs)
        [(observation, info)] = env.reset(seed=0)
        return task_text(View(observation, info, (), env.members[0].base, np.random.default_rng(0)))

    assert "Symbols: # wall" in task()
    picture = task(obs_mode="rgb")
    assert "# wall" not in picture
    assert "a blue figure is the player" in picture
    for keys in (["rgb"], ["rgb", "grid"]):
        assert task(obs_mode="dict", obs_keys=keys) == picture
    both = task(obs_mode="dict", obs_keys=["rgb", "text"])
    assert "# wall" in both
    assert "in the picture, grey bricks are walls" in both
