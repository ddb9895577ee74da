"""Levels of gym-sokoban's distribution: the released search chooses the same starts, seeds and names repeat."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import creditflow
from creditflow.envs.errors import ConfigError, UnknownTaskError
from creditflow.envs.sokoban import (
    GeneratorOptions,
    GymSokobanOptions,
    level_name,
    level_oracle,
    level_task,
    named_level,
)
from creditflow.envs.sokoban.levels.gym_sokoban import RagenOptions, Room, carve_room, reverse_start

# rooms with the start that the search of gym-sokoban 0.0.6 chose in each
ROOMS = json.loads(Path(__file__).with_name("gym_sokoban_rooms.json").read_text("utf-8"))
PINNED = {
    "gym_sokoban/6x6/1/1-30000/0": "sokoban1:80b99ca977ea0e78cd7fe7fff4e378fd",
    "gym_sokoban/8x8/2/1-30000/0": "sokoban1:cbe226540bc4f688f1b02592659310a0",
    # a search with another limit of depth finds other starts for the next two
    "gym_sokoban/8x8/2/1-30000/9": "sokoban1:d4ba6e5173659036d988666dd5b5a2f1",
    "gym_sokoban/8x8/2/1-30000/171": "sokoban1:43b32ccad282a9fd43fb10cb8e1d8ee2",
    "exact/7x7/2/8-15/3": "sokoban1:66b91f073a3450791b62c19ef65fc677",
}


def test_the_recorded_starts_of_the_released_search_are_ours():
    for entry in ROOMS:
        room = Room(entry["width"], tuple(entry["floor"]), entry["player"], tuple(entry["targets"]))
        score, player, boxes = entry["start"]
        found = reverse_start(room)
        assert found.score == score
        if score:
            assert (found.player, list(found.boxes)) == (player, boxes)
    assert len(ROOMS) >= 50


@pytest.mark.parametrize(
    "options", [GymSokobanOptions(5, 7, 2), GymSokobanOptions(8, 8, 3), GymSokobanOptions(10, 10, 1)]
)
def test_every_target_is_free_and_the_level_can_be_solved(options):
    rng = np.random.Generator(np.random.PCG64(1))
    for _ in range(10):
        level = options.level(rng)
        assert (level.height, level.width, len(level.boxes)) == (options.height, options.width, options.boxes)
        assert not set(level.targets) & {*level.boxes, level.player}
        assert level_oracle(level).moves_left(level.player, level.boxes) >= 1


def test_lengths_are_kept_by_rejection():
    rng = np.random.Generator(np.random.PCG64(2))
    options = GymSokobanOptions(6, 6, 1, 6, 9)
    lengths = [level_oracle(level).moves_left(level.player, level.boxes)
               for level in (options.level(rng) for _ in range(30))]  # fmt: skip
    assert min(lengths) >= 6
    assert max(lengths) <= 9


def test_rooms_lie_within_the_outer_walls():
    rng = np.random.Generator(np.random.PCG64(3))
    rooms = [carve_room(rng, 5, 6, 3) for _ in range(300)]
    assert None in rooms  # some are too small for three boxes
    for room in rooms:
        if room is not None:
            assert all(0 < cell // 6 < 4 and 0 < cell % 6 < 5 for cell in room.floor)
            assert len({room.player, *room.targets}) == 4
            assert {room.player, *room.targets} <= set(room.floor)


@pytest.mark.parametrize(("name", "task_id"), PINNED.items())
def test_a_name_makes_its_level_everywhere(name, task_id):
    assert level_task(named_level(name)).task_id == task_id
    env = creditflow.make("sokoban", generator={"distribution": "gym_sokoban", "height": 10, "width": 10})
    _, info = env.reset(options={"task_id": name})
    assert info["task_id"] == task_id


def test_names_are_those_of_options_and_seed():
    for options in (GymSokobanOptions(9, 8, 2, 3, 40), GeneratorOptions(5, 6, 1, 2, 9)):
        made = options.level(np.random.Generator(np.random.PCG64(77)))
        assert named_level(level_name(options, 77)) == made


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("exact/6x6/1/2-200", UnknownTaskError, "SHORTEST-LONGEST/SEED"),
        ("random/6x6/1/2-200/3", UnknownTaskError, "exact, gym_sokoban"),
        ("exact/6x6/1/2-200/x", UnknownTaskError, "not the name of a generated level"),
        ("exact/3x6/1/2-200/1", ConfigError, "height"),
        ("exact/6x6/9/2-200/1", ConfigError, "boxes"),
        ("exact/6x6/1/9-2/1", ConfigError, "max_length"),
        ("exact/6x6/1/2-9/9999999999999999999", ConfigError, "below 2"),
        ("exact/5x5/1/300-400/1", ConfigError, "found no level"),
    ],
)
def test_wrong_names(name, error, message):
    with pytest.raises(error, match=message):
        named_level(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distribution": "gymsokoban"}, "did you mean 'gym_sokoban'"),
        ({"distribution": 3}, "unknown distribution"),
        ({"distribution": "gym_sokoban", "hight": 3}, "did you mean 'height'"),
        ({"distribution": "gym_sokoban", "boxes": 0}, "boxes must be"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ConfigError, match=message):
        creditflow.make("sokoban", generator=options)


# of 512 boards of RAGEN's own generator (seeds 123 to 634), how many need 1, 2, … moves
RAGEN_LENGTHS = (48, 127, 55, 86, 75, 52, 28, 26, 7, 8)


def test_ragens_levels_are_as_long_as_those_of_its_own_generator():
    """χ² of two samples of 256 and 512 levels, the two rarest lengths together: 8 degrees of freedom, 26.1 has p = .001."""
    levels = [RagenOptions(6, 6, 1).level(np.random.Generator(np.random.PCG64(seed))) for seed in range(256)]
    lengths = Counter(level_oracle(level).moves_left(level.player, level.boxes) for level in levels)
    ours = np.array([lengths[n] for n in range(1, 9)] + [sum(lengths[n] for n in range(9, 99))]) / 256
    theirs = np.array([*RAGEN_LENGTHS[:8], sum(RAGEN_LENGTHS[8:])]) / 512
    pooled = (ours + 2 * theirs) / 3
    assert 256 * 512 / 768 * ((ours - theirs) ** 2 / pooled).sum() < 26.1


def test_a_panel_of_seeds_is_its_named_levels():
    env: Any = creditflow.make("sokoban", panel="ragen/6x6/1/1-10:3-5").unwrapped
    levels = [named_level(f"ragen/6x6/1/1-10/{seed}") for seed in (3, 4, 5)]
    assert list(env.tasks.task_ids()) == [level_task(level).task_id for level in levels]
    for wrong in ("ragen/6x6/1/1-10:5-3", "ragen/6x6/1/1-10:5", "ragen/6x6/1/1-10:train"):
        with pytest.raises(ConfigError, match="is not a panel of generated levels"):
            creditflow.make("sokoban", panel=wrong)
