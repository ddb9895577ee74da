"""Generated houses: the same everywhere, solvable, not trivial, in disjoint splits, accepted by the real engine."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from helpers.panels.alfworld import standard_rows
from helpers.shared_data import shared_file
from helpers.worlds.game_files import export_game
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.alfworld import generator
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import game_task, validate_content
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.game_files.folder import find_root, game_paths
from creditflow.envs.alfworld.game_files.reading import content_from_fields
from creditflow.envs.alfworld.generator import (
    GENERATION,
    MIN_STEPS,
    SPLITS,
    barred,
    generate,
    house_statistics,
    rooms_for,
)
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.pddl import TASK_TYPES
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.tasks import build_task
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import load_panel

PANELS = {
    "standard-v1": "9a106e37f8656769a8edc4b98c084a3a96b2263766b417aa4fa8e949c1329d5c",
    "standard-v2": "e61c44869c523f8101b918e04e394554a2939d01a607119c76aca4e9f3eeb61e",
    "standard-v3": "ed07fbaa7569f6f59ef85473a1397357a93698c7e112043da471ef6f9986c03d",
    "released-v1": "b91a7d7dbe9bfa900842fe8e1e4e945bb89a9607da3754cdd333521798dab241",
    "released-v2": "7ec9af1c82ae7791bbac10e1a47577d7bbfc6a7983f155482d0721b2b566b758",
}


def test_seeds_give_the_published_houses() -> None:
    """A change here needs a new GENERATION and new panels."""
    assert GENERATION == 3
    ids = [game_task(generate(seed, split)).task_id for split in SPLITS for seed in range(3)]
    assert hashlib.sha256(" ".join(ids).encode()).hexdigest()[:16] == "0221986161e2a2ac"


@pytest.mark.parametrize(("name", "digest"), PANELS.items())
def test_panels_do_not_change(name: str, digest: str) -> None:
    folder = files("creditflow.assets") / "panels" / "alfworld"
    plain = folder / f"{name}.json"
    data = plain.read_bytes() if plain.is_file() else gzip.decompress((folder / f"{name}.json.gz").read_bytes())
    assert hashlib.sha256(data).hexdigest() == digest


def test_the_standard_panel_is_reproducible() -> None:
    assert tuple(standard_rows()) == load_panel("alfworld", "standard-v3").rows


@pytest.mark.parametrize("panel", ["standard-v1", "standard-v2"])
def test_former_standard_panels_keep_their_ids(panel: str) -> None:
    """Their houses are from earlier generators, so their rows are contents."""
    rows = load_panel("alfworld", panel).rows
    assert len(rows) == 480
    assert [build_task(row.locator).task_id for row in rows] == [row.task_id for row in rows]


@pytest.mark.parametrize("panel", ["standard-v1", "standard-v2", "standard-v3"])
def test_splits_of_the_standard_panel_share_no_house_up_to_renaming(panel: str) -> None:
    rows = load_panel("alfworld", panel).rows
    canonical = [build_task(row.locator).canonical_id for row in rows]
    assert len(set(canonical)) == len(rows)


@given(seed=st.integers(0, 2**62), split=st.sampled_from(SPLITS), task=st.sampled_from(sorted(TASK_TYPES)))
def test_every_house_is_solvable_not_trivial_and_solved_by_its_shortest_plan(seed: int, split: str, task: str) -> None:
    content = generate(seed, split, task)
    world, oracle = World(Game(content)), ALFWorldOracle()
    answer = oracle.world_distance(world)
    assert content["goal"][0] == task
    assert MIN_STEPS[task] <= answer.distance < math.inf
    assert answer.exact
    plan = oracle.solution(world)
    assert plan is not None
    assert len(plan) == answer.distance
    for command in plan:
        assert not world.won()
        act(world, admissible_commands(world).by_text[command])
    assert world.won()


@given(seed=st.integers(0, 2**62))
def test_held_out_layouts_never_occur_in_the_other_splits(seed: int) -> None:
    """A layout is the furniture at each location, with whether it can be opened."""

    def layout(split: str) -> str:
        stands: dict[str, list[str]] = {}
        for _, kind, home, door in generate(seed, split)["receptacles"]:
            stands.setdefault(home, []).append(f"{kind}{door}")
        return repr(sorted(sorted(stand) for stand in stands.values()))

    known, unseen = {layout("train"), layout("valid_seen")}, layout("valid_unseen")
    assert unseen not in known


def test_renaming_and_rewording_change_the_id_of_a_game_and_not_its_canonical_id() -> None:
    content = generate(5)

    def renamed(name: str) -> str:
        """Another instance number: it changes the sorted order, hence the numbers in observations."""
        base, mark, number = name.partition("_bar_")
        return f"{base}{mark}{99 - int(number[:2]):02d}{number[2:]}" if mark else name

    def rows(kind: str) -> list:
        return sorted(
            [
                renamed(row[0]),
                row[1],
                *(sorted(map(renamed, v)) if isinstance(v, list) and i < 3 else v for i, v in enumerate(row[2:])),
            ]
            for row in content[kind]
        )

    receptacles = sorted([renamed(r), kind, renamed(home), door] for r, kind, home, door in content["receptacles"])
    agent = [content["agent"][0], renamed(content["agent"][1]), ""]
    other = {**content, "receptacles": receptacles, "objects": rows("objects"), "agent": agent, "sentence": "do it"}
    first, second = game_task(content), game_task(validate_content(other, "renamed"))
    assert first.task_id != second.task_id
    assert first.canonical_id == second.canonical_id
    moved = json.loads(json.dumps(content))
    moved["objects"][0][1] = "othertype"
    assert game_task(moved).canonical_id != first.canonical_id


def _starts(content: Any) -> Iterator[tuple[str, bool, bool]]:
    """Yield type of furniture, whether the object is the goal's, and whether it is cold, of objects in furniture."""
    kinds = {row[0]: row[1].removesuffix("type") for row in content["receptacles"]}
    for row in content["objects"]:
        if row[3]:
            yield kinds[row[3][0]], row[1] == content["goal"][1], "iscool" in row[5]


@pytest.mark.parametrize("source", ["generated", "released"])
def test_goal_objects_start_where_the_release_has_them(source: str) -> None:
    """Never at the goal, nor where they are treated; and exactly those in a fridge are cold."""
    games = (
        [generate(seed) for seed in range(150)]
        if source == "generated"
        else [build_task(str(path)).content for path in sorted(shared_file("data/alfworld").rglob("game.tw-pddl"))]
    )
    cold = 0
    for content in games:
        task, _, place = content["goal"]
        for kind, wanted, cool in _starts(content):
            assert not (wanted and kind in barred(task, place.removesuffix("type")))
            assert cool == (wanted and kind == "fridge")
            cold += cool
    assert cold


def test_every_room_and_task_can_be_requested() -> None:
    for task in TASK_TYPES:
        for room in rooms_for(task):
            assert generate(11, task_type=task, room=room)["goal"][0] == task


def test_the_irregularities_of_released_games_occur_in_generated_ones_too() -> None:
    seen: set[str] = set()
    for seed in range(80):
        game = Game(generate(seed))
        seen |= {"shared place"} if any(len(here) > 1 for here in game.at_location) else set()
        for row in game.content["objects"]:
            seen |= {"in two"} if len(row[3]) > 1 else set()
            seen |= {"within"} if row[4] else set()
            seen |= {"cold"} if "iscool" in row[5] else set()
        seen |= {"no door"} if any(t == "drawertype" and not d for _, t, _, d in game.content["receptacles"]) else set()
    assert seen == {"shared place", "in two", "within", "cold", "no door"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": -1}, "integer from 0"),
        ({"seed": 1, "split": "test"}, "unknown split"),
        ({"seed": 1, "task_type": "pick_and_place"}, "did you mean 'pick_and_place_simple'"),
        ({"seed": 1, "task_type": "look_at_obj_in_light", "room": "kitchen"}, "unknown room"),
    ],
)
def test_wrong_arguments_are_rejected_with_the_nearest_name(wrong: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        generate(**wrong)


@pytest.mark.parametrize("syntax", [None, "put"])
@pytest.mark.parametrize("seed", range(12))
def test_an_exported_game_reads_back_as_the_same_game(seed: int, syntax: str | None) -> None:
    game = Game(generate(seed), syntax)
    again = content_from_fields(game_fields(game), "exported")
    assert again == {**game.content, "dialect": syntax or "move"}


def test_exported_games_are_found_as_a_folder_of_games(tmp_path: Path) -> None:
    game = Game(generate(4, "valid_seen"))
    plan = ALFWorldOracle().solution(World(game))
    assert plan is not None
    path = export_game(game, tmp_path, "valid_seen", plan)
    assert game_paths(find_root(str(tmp_path)), "valid_seen") == (path,)
    assert json.loads(path.read_text())["walkthrough"] == list(plan)
    assert json.loads(path.with_name("traj_data.json").read_text())["task_type"] == game.goal.task_type
    assert build_task(str(path)).task_id == game.task.task_id
    assert [p.name for p in path.parent.iterdir() if p.suffix == ".tmp"] == []


def test_statistics_of_which_no_house_poses_the_task_are_an_error_and_no_endless_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = house_statistics()
    bathroom = known.rooms["bathroom"]
    nowhere = replace(bathroom.objects["soapbar"], places={})
    lost = replace(bathroom, objects={**bathroom.objects, "soapbar": nowhere})
    statistics = replace(
        known,
        rooms={**known.rooms, "bathroom": lost},
        goals={"pick_and_place_simple": {"bathroom": {("soapbar", "toilet"): 1}}},
    )
    monkeypatch.setattr(generator, "ATTEMPTS", 5)
    with pytest.raises(ConfigError, match="none of 5 bathroom houses poses pick_and_place_simple in the split train"):
        generate(0, statistics=statistics)
