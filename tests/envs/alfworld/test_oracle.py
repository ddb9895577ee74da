"""The oracle against exhaustive search and published plans, and its limits."""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from helpers.shared_data import shared_files
from helpers.worlds.alfworld_tiny import tiny_house

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.reading import content_from_fields, fields_from_file
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.pddl import TASK_TYPES
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import ConfigError, OracleLimitError


def state_space(game: Game, largest: int) -> tuple[dict[str, World], dict[str, dict[str, str]]] | None:
    """Return all reachable states by key, and their successors by command; None if there are more than ``largest``."""
    start = World(game)
    worlds, queue = {start.key(): start}, deque([start])
    edges: dict[str, dict[str, str]] = {}
    while queue:
        world = queue.popleft()
        edges[world.key()] = ways = {}
        if world.won():  # the episode is over
            continue
        for command, parsed in admissible_commands(world).by_text.items():
            after = world.copy()
            act(after, parsed)
            ways[command] = after.key()
            if after.key() not in worlds:
                worlds[after.key()] = after
                queue.append(after)
                if len(worlds) > largest:
                    return None
    return worlds, edges


def true_distances(worlds: dict[str, World], edges: dict[str, dict[str, str]]) -> dict[str, float]:
    back: dict[str, list[str]] = {key: [] for key in worlds}
    for key, ways in edges.items():
        for after in ways.values():
            back[after].append(key)
    distance = {key: 0.0 if world.won() else math.inf for key, world in worlds.items()}
    queue = deque(key for key, steps in distance.items() if steps == 0)
    while queue:
        key = queue.popleft()
        for before in back[key]:
            if distance[before] == math.inf:
                distance[before] = distance[key] + 1
                queue.append(before)
    return distance


@pytest.mark.parametrize("task", TASK_TYPES)
@pytest.mark.parametrize(
    ("houses", "largest", "least"), [(10, 1_500, 300), pytest.param(16, 12_000, 1_000, marks=pytest.mark.slow)]
)
def test_distances_and_optimal_commands_equal_exhaustive_search_in_every_reachable_state(
    task: str, houses: int, largest: int, least: int
) -> None:
    checked = 0
    for seed in range(houses):
        space = state_space(Game(tiny_house(seed, task)), largest)
        if space is None:
            continue
        worlds, edges = space
        distance, oracle = true_distances(worlds, edges), ALFWorldOracle()
        for key, world in worlds.items():
            assert oracle.world_distance(world).distance == distance[key], (seed, world.to_json())
        for key in list(worlds)[::17]:
            best = {c for c, after in edges[key].items() if distance[after] + 1 == distance[key] < math.inf}
            assert set(oracle.assess_world(worlds[key]).actions) == best, (seed, worlds[key].to_json())
        assert oracle.exact
        checked += len(worlds)
    assert checked > least


@pytest.mark.parametrize("path", shared_files("data/alfworld/json_2.1.1/*/*/*/game.tw-pddl"), ids=lambda p: p.parts[-3])
def test_the_distance_of_a_released_game_is_the_length_of_its_walkthrough(path: Path) -> None:
    fields = fields_from_file(path)
    world = World(Game(content_from_fields(fields, str(path))))
    oracle = ALFWorldOracle()
    answer = oracle.assess_world(world)
    assert (answer.distance, answer.exact, answer.value) == (len(fields["walkthrough"]), True, 1.0)
    assert fields["walkthrough"][0] in answer.actions


@pytest.mark.parametrize("seed", range(6))
def test_each_optimal_command_reduces_the_distance_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world, oracle = World(Game(generate(seed))), ALFWorldOracle()
    for _ in range(40):
        if world.won():
            break
        answer = oracle.assess_world(world)
        assert answer.actions == tuple(sorted(answer.actions))
        for command in answer.actions:
            after = world.copy()
            act(after, admissible_commands(after).by_text[command])
            assert oracle.world_distance(after).distance == answer.distance - 1
        commands = admissible_commands(world).commands
        act(world, admissible_commands(world).by_text[commands[int(rng.integers(len(commands)))]])


def test_value_depends_on_the_steps_left() -> None:
    env = ALFWorldEnv()
    env.reset(seed=5)
    state = env.get_state()
    steps = int(env.oracle.distance(state))
    assert (env.oracle.value(state), env.oracle.value(state, steps_left=steps)) == (1.0, 1.0)
    assert env.oracle.value(state, steps_left=steps - 1) == 0.0


def test_an_object_that_can_never_be_put_down_makes_success_unreachable() -> None:
    house = tiny_house(0, "pick_and_place_simple")
    house["objects"] = [
        ["m_bar_1", "mugtype", ["loc_bar_1"], ["r0_bar_1"], [], ["pickupable"]],
        ["x_bar_1", "pentype", ["loc_bar_1"], ["r0_bar_1"], [], ["pickupable"]],
    ]
    house["receptacles"] = [["r0_bar_1", "cabinettype", "loc_bar_1", ""], ["r1_bar_1", "desktype", "loc_bar_2", ""]]
    house["goal"], house["contain"] = ["pick_and_place_simple", "mugtype", "desktype"], {"desktype": ["mugtype"]}
    world, oracle = World(Game(house)), ALFWorldOracle()
    for command in ("go to r0 1", "take x 1 from r0 1"):
        parsed = admissible_commands(world).by_text.get(command)
        if parsed is not None:
            act(world, parsed)
    assert world.held >= 0
    answer = oracle.assess_world(world)
    assert (answer.distance, answer.actions, answer.value, answer.exact) == (math.inf, (), 0.0, True)


def test_a_limited_search_is_marked_inexact_and_its_distance_is_an_upper_bound() -> None:
    content = generate(0, task_type="pick_two_obj_and_place")
    exact = ALFWorldOracle().world_distance(World(Game(content))).distance
    for nodes in range(1, 200):
        oracle = ALFWorldOracle(nodes)
        try:
            answer = oracle.world_distance(World(Game(content)))
        except OracleLimitError:
            continue
        assert answer.distance >= exact
        assert oracle.exact == answer.exact
        if not answer.exact:
            break
    else:
        pytest.fail("no limit gave a greedy result")


def test_an_invalid_node_limit_is_rejected() -> None:
    with pytest.raises(ConfigError, match="positive"):
        ALFWorldOracle(0)
