"""Single rules of the engine, each on a minimal house."""

from __future__ import annotations

from typing import Any

import pytest

from creditflow.envs.alfworld.game import Game, human_names
from creditflow.envs.alfworld.game_files.content import validate_content
from creditflow.envs.alfworld.replies import intro
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.world import World


def house(**changes: Any) -> World:
    """Return a house: desk and shelf at one location, a microwave elsewhere; a mug in both, a pan that contains itself and a cup."""
    content = {
        "format": 1,
        "dialect": "move",
        "sentence": "try",
        "goal": ["pick_and_place_simple", "mugtype", "fridgetype"],
        "agent": ["agent1", "loc_bar_0", ""],
        "receptacles": [
            ["desk_bar_1", "desktype", "loc_bar_1", ""],
            ["microwave_bar_1", "microwavetype", "loc_bar_2", "openable"],
            ["shelf_bar_1", "shelftype", "loc_bar_1", ""],
        ],
        "objects": [
            ["cup_bar_1", "cuptype", ["loc_bar_1"], ["desk_bar_1"], ["pan_bar_1"], ["pickupable"]],
            ["lamp_bar_1", "lamptype", ["loc_bar_1"], ["shelf_bar_1"], [], ["pickupable", "toggleable"]],
            ["mug_bar_1", "mugtype", ["loc_bar_1"], ["desk_bar_1", "shelf_bar_1"], [], ["heatable", "pickupable"]],
            [
                "pan_bar_1",
                "pantype",
                ["loc_bar_1"],
                ["desk_bar_1"],
                ["pan_bar_1"],
                ["isreceptacleobject", "pickupable"],
            ],
        ],
        "contain": {"desktype": ["mugtype"], "shelftype": ["mugtype"]},
        **changes,
    }
    return World(Game(validate_content(content, "house")))


def reply_to(world: World, *commands: str) -> str:
    reply = ""
    for command in commands:
        reply, _ = act(world, admissible_commands(world).by_text[command])
    return reply


def test_a_container_never_lists_itself() -> None:
    assert reply_to(house(), "go to desk 1", "take pan 1 from desk 1", "examine pan 1") == (
        "This is a normal pan 1. In it, you see a cup 1."
    )


def test_heating_works_with_the_microwave_closed() -> None:
    reply = reply_to(
        house(), "go to desk 1", "take mug 1 from desk 1", "go to microwave 1", "heat mug 1 with microwave 1"
    )
    assert reply == "You heat the mug 1 using the microwave 1."


def test_an_object_in_two_receptacles_stays_in_the_other_when_taken_from_one() -> None:
    world = house()
    assert reply_to(world, "go to desk 1", "take mug 1 from desk 1", "examine shelf 1") == (
        "On the shelf 1, you see a lamp 1, and a mug 1."
    )
    assert "take mug 1 from shelf 1" not in admissible_commands(world).commands


def test_the_floor_list_names_an_object_once_for_every_receptacle_here_it_was_taken_from() -> None:
    world = house()
    reply_to(world, "go to desk 1", "take mug 1 from desk 1", "move mug 1 to shelf 1", "take mug 1 from shelf 1")
    assert reply_to(world, "look") == "You are facing the desk 1, and shelf 1. Next to it, you see nothing."
    assert reply_to(world, "move mug 1 to shelf 1", "look").endswith("Next to it, you see a mug 1.")
    world = house()
    world.around[world.game.location_ids.index("loc_bar_1")] |= 0b100
    world.missing = {0: 0b100, 2: 0b100}
    assert reply_to(world, "go to desk 1", "look").endswith("Next to it, you see a mug 1, and a mug 1.")


def test_a_held_lamp_that_was_used_is_on() -> None:
    world = house()
    reply_to(world, "go to shelf 1", "use lamp 1", "use lamp 1", "take lamp 1 from shelf 1")
    assert reply_to(world, "examine lamp 1") == "This lamp 1 is on."


def test_looking_at_the_start_sees_nothing_although_the_introduction_does() -> None:
    world = house()
    assert "you see a desk 1, a microwave 1, and a shelf 1." in intro(world)
    assert reply_to(world, "look") == "You are in the middle of a room. Looking quickly around you, you see nothing."


def test_the_introduction_describes_a_start_at_a_receptacle() -> None:
    world = house(agent=["agent1", "loc_bar_2", ""])
    assert "You are facing the microwave 1. Next to it, you see nothing." in intro(world)
    assert "go to microwave 1" not in admissible_commands(world).commands


def test_a_receptacle_without_a_location_is_neither_named_nor_reachable() -> None:
    rows = house().game.content["receptacles"]
    world = house(receptacles=[[*row[:2], "" if row[0] == "shelf_bar_1" else row[2], row[3]] for row in rows])
    assert "shelf" not in intro(world)
    assert "go to shelf 1" not in admissible_commands(world).commands


@pytest.mark.parametrize("held", ["mug_bar_1", "lamp_bar_1"])
def test_a_game_may_start_with_a_held_object(held: str) -> None:
    world = house(agent=["agent1", "loc_bar_1", held])
    assert reply_to(world, "inventory") == f"You are carrying: a {held.removesuffix('_bar_1')} 1."
    assert ("move mug 1 to desk 1" in admissible_commands(world).commands) == (held == "mug_bar_1")


def test_the_first_sorted_id_gets_the_highest_number_and_unmarked_ids_end_in_a_blank() -> None:
    names = human_names(["cup_bar__minus_01", "cup_bar__plus_01", "sink_bar_1", "sink_bar_1_bar_sinkbasin", "agent"])
    assert names == {
        "agent": "agent ",
        "cup_bar__minus_01": "cup 2",
        "cup_bar__plus_01": "cup 1",
        "sink_bar_1": "sink 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
    }
