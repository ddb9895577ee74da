"""The exact oracle against forward search, and its limits on memory."""

from __future__ import annotations

import math
from collections import deque
from functools import lru_cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.envs.errors import ConfigError, DataError, LevelError, OracleLimitError
from creditflow.envs.sokoban import LevelOracle, SokobanEnv, dead_state_fraction, level_oracle, parse_level, read_levels
from creditflow.envs.sokoban import oracle as oracle_module
from creditflow.envs.sokoban.rules import direction_offsets, move, solved
from creditflow.envs.sokoban.snapshot import box_positions

CORNER = "#######\n#   . #\n# $@  #\n#     #\n#######"


def forward_search(level):
    """Return board -> (player, exact moves left or None if dead) for every reachable state, by exhaustive search."""
    offsets = direction_offsets(level.width)
    players = {level.board: level.player}
    parents: dict[bytes, list[bytes]] = {level.board: []}
    queue = deque([level.board])
    while queue:
        board = queue.popleft()
        if solved(board):
            continue
        for offset in offsets:
            after, player, *_ = move(board, players[board], offset)
            if after not in players:
                players[after], parents[after] = player, []
                queue.append(after)
            parents[after].append(board)
    left = {board: 0 for board in players if solved(board)}
    queue = deque(left)
    while queue:
        board = queue.popleft()
        for parent in parents[board]:
            if parent not in left:
                left[parent] = left[board] + 1
                queue.append(parent)
    return {board: (player, left.get(board)) for board, player in players.items()}


@st.composite
def small_levels(draw):
    height, width = draw(st.integers(2, 4)), draw(st.integers(2, 5))
    cells = [(r, c) for r in range(height) for c in range(width)]
    walls = draw(st.sets(st.sampled_from(cells), max_size=height * width // 3))
    free = [cell for cell in cells if cell not in walls]
    boxes = draw(st.integers(1, 3))
    assume(len(free) > boxes)
    places = draw(st.permutations(free))
    targets = set(draw(st.permutations(free))[:boxes])
    rows = [
        ["#" if (r, c) in walls else "." if (r, c) in targets else " " for c in range(width)] for r in range(height)
    ]
    for r, c in places[:boxes]:
        rows[r][c] = "*" if rows[r][c] == "." else "$"
    r, c = places[boxes]
    rows[r][c] = "+" if rows[r][c] == "." else "@"
    body = "\n".join("#" + "".join(row) + "#" for row in rows)
    try:
        return parse_level("#" * (width + 2) + "\n" + body + "\n" + "#" * (width + 2))
    except LevelError:
        assume(False)
        raise


@settings(max_examples=150, deadline=None, derandomize=True)
@given(small_levels())
def test_distances_equal_forward_search_at_every_reachable_state(level):
    oracle = LevelOracle(level)
    for board, (player, expected) in forward_search(level).items():
        assert oracle.board_moves_left(board, player) == (-1 if expected is None else expected)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(small_levels())
def test_the_dead_state_fraction_equals_forward_search(level):
    unsolved = [left for _, left in forward_search(level).values() if left != 0]
    assert dead_state_fraction(level) == pytest.approx(unsolved.count(None) / len(unsolved))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(small_levels())
def test_optimal_directions_are_exactly_those_that_reduce_the_distance(level):
    states = forward_search(level)
    oracle = LevelOracle(level)
    for board, (player, left) in states.items():
        nearer = []
        for index, offset in enumerate(oracle.offsets):
            after, _, moved, pushed, _ = move(board, player, offset)
            if left and moved and states[after][1] == left - 1:
                nearer.append((index, pushed))
        assert oracle.optimal_directions(board, player) == nearer


def test_solutions_of_boxoban_levels_have_the_predicted_length(boxoban_file):
    for level in read_levels(boxoban_file)[:3]:
        env = SokobanEnv(level=level.xsb, max_steps=1000)
        env.reset()
        oracle, start = env.oracle, env.get_state()
        solution = oracle.solution(start)
        assert len(solution) == oracle.distance(start)
        for place, action in enumerate(solution):
            assert oracle.distance(env.get_state()) == len(solution) - place
            _, _, terminated, _, info = env.step(action)
        assert terminated
        assert info["success"]


def test_value_depends_on_the_steps_left():
    env = SokobanEnv(level=CORNER)
    env.reset()
    state = env.get_state()
    length = env.oracle.distance(state)
    assert env.oracle.value(state) == 1.0
    assert env.oracle.value(state, steps_left=int(length)) == 1.0
    assert env.oracle.value(state, steps_left=int(length) - 1) == 0.0


def test_a_box_at_a_wall_without_targets_is_dead():
    env = SokobanEnv(level=CORNER)
    env.reset()
    env.step("left")
    state = env.get_state()
    assert math.isinf(env.oracle.distance(state))
    assert env.oracle.value(state) == 0.0
    assert env.oracle.optimal_actions(state) == ()
    assert env.oracle.solution(state) == ()


def test_a_solved_state_has_distance_zero_and_no_actions():
    env = SokobanEnv(level="#####\n#@$.#\n#####")
    env.reset()
    env.step("right")
    state = env.get_state()
    assert (env.oracle.distance(state), env.oracle.value(state), env.oracle.optimal_actions(state)) == (0.0, 1.0, ())


def test_nine_actions_offer_walking_twice_and_pushing_once():
    env = SokobanEnv(level="#######\n#@ $ .#\n#######", n_actions=9)
    env.reset()
    assert env.oracle.optimal_actions(env.get_state()) == ("move right", "push right")
    env.step("move right")
    assert env.oracle.optimal_actions(env.get_state()) == ("push right",)


def test_a_box_that_is_separated_from_its_target_makes_the_level_dead():
    level = parse_level("########\n#@ .##$#\n########")
    assert level_oracle(level).moves_left(level.player, level.boxes) == -1
    assert dead_state_fraction(level) == 1.0


def test_a_stored_box_outside_the_room_does_not_matter():
    level = parse_level("#########\n#@$ .##*#\n#########")
    assert level_oracle(level).board_moves_left(level.board, level.player) == 2


def test_a_table_over_the_memory_limit_is_an_error_that_names_the_option():
    open_room = "\n".join(["#" * 20, "#@$$$$....         #", *["#" + " " * 18 + "#"] * 16, "#" * 20])
    with pytest.raises(OracleLimitError, match="oracle_memory_mb"):
        LevelOracle(parse_level(open_room))


def test_oracle_memory_must_be_a_positive_integer():
    with pytest.raises(ConfigError, match="oracle_memory_mb"):
        creditflow.make("sokoban", oracle_memory_mb=0)


def test_the_cache_is_shared_and_bounded_in_bytes():
    level = parse_level(CORNER)
    assert level_oracle(level) is level_oracle(parse_level(CORNER))
    cache = oracle_module._Cache(limit=3000)
    for text in (CORNER, CORNER.replace(" $", "$ "), CORNER.replace("$@ ", "@ $"), "#####\n#@$.#\n#####"):
        cache.get(parse_level(text), 1)
        assert cache.nbytes <= 3000 or len(cache._entries) == 1


def wide_room(boxes, rows, width):
    first = f"#@ {'$' * boxes}{'.' * boxes}{' ' * (width - 2 - 2 * boxes)}#\n"
    return parse_level("#" * (width + 2) + "\n" + first + f"#{' ' * width}#\n" * rows + "#" * (width + 2))


def layers_or_error(make, room, memory_mb):
    try:
        return make(wide_room(*room), memory_mb).table.layers.tobytes()
    except OracleLimitError as error:
        return str(error)


@lru_cache
def built_afresh(room, memory_mb):
    return layers_or_error(LevelOracle, room, memory_mb)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from([(1, 1, 12), (4, 2, 12), (4, 3, 10)]), st.integers(1, 4)), max_size=9))
def test_the_cache_keeps_the_memory_limit_of_every_call(calls):
    """A table that another call built gives the same as building it within this call's own limit, in MiB."""
    cache = oracle_module._Cache(limit=2**30)

    for room, memory_mb in calls:
        assert layers_or_error(cache.get, room, memory_mb) == built_afresh(room, memory_mb)


def test_the_oracle_rejects_values_that_are_not_snapshots():
    env = SokobanEnv(level=CORNER)
    with pytest.raises(DataError):
        env.oracle.value("{}")


def test_positions_of_boxes_are_all_found():
    level = parse_level("#######\n#@$*. #\n#######")
    assert tuple(box_positions(level.board)) == level.boxes


def test_cells_from_which_no_box_reaches_a_target_take_no_memory_in_the_table():
    table = LevelOracle(parse_level(CORNER)).table
    assert table is not None
    # 15 cells; the target lies in the top row, so a box in the bottom row or at a side wall is dead
    assert (table.size, len(table.box_index)) == (15, 6)
    assert len(table.layers) == 6 * 15
