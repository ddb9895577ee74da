"""The rules against a second, naive implementation, and their invariants."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.sokoban import parse_level
from creditflow.envs.sokoban.rules import BOX_ON_TARGET, direction_offsets, grid, move, solved, to_cell, to_position

LEVEL = parse_level("########\n#  .   #\n# $+$* #\n# $$ . #\n# .    #\n########")
STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))


def naive(walls, boxes, player, step, push):
    ahead = (player[0] + step[0], player[1] + step[1])
    behind = (ahead[0] + step[0], ahead[1] + step[1])
    if ahead in walls:
        return boxes, player
    if ahead in boxes:
        if not push or behind in walls or behind in boxes:
            return boxes, player
        return boxes - {ahead} | {behind}, ahead
    return boxes, ahead


def cells_of(board, width, codes):
    codes_here = grid(board, width)
    return {(int(r), int(c)) for r, c in zip(*(codes_here[..., None] == list(codes)).any(-1).nonzero(), strict=True)}


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_moves_are_those_of_the_naive_rules(actions):
    board, player, width = LEVEL.board, LEVEL.player, LEVEL.width
    walls, targets = cells_of(board, width, [0]), cells_of(board, width, [2, 3, 6])
    boxes, at = cells_of(board, width, [3, 4]), divmod(to_cell(player, width), width)
    for direction, push in actions:
        after, place, player_moved, box_moved, gain = move(board, player, direction_offsets(width)[direction], push)
        boxes_then, at_then = naive(walls, boxes, at, STEPS[direction], push)
        assert (player_moved, box_moved) == (at_then != at, boxes_then != boxes)
        assert gain == len(boxes_then & targets) - len(boxes & targets)
        board, player, boxes, at = after, place, boxes_then, at_then
        assert cells_of(board, width, [3, 4]) == boxes
        assert cells_of(board, width, [5, 6]) == {at} == {divmod(to_cell(player, width), width)}
        assert cells_of(board, width, [2, 3, 6]) == targets
        assert cells_of(board, width, [0]) == walls
        assert board.count(BOX_ON_TARGET) == len(boxes & targets)
        assert solved(board) == (boxes == targets)


def test_a_bump_returns_the_same_board_object():
    level = parse_level("#####\n#@$.#\n#####")
    after, player, moved, pushed, gain = move(level.board, level.player, direction_offsets(level.width)[0])
    assert after is level.board
    assert (player, moved, pushed, gain) == (level.player, False, False, 0)


@settings(derandomize=True, deadline=None)
@given(st.integers(3, 64), st.integers(0, 5000))
def test_positions_and_cells_are_inverse(width, cell):
    assert to_cell(to_position(cell, width), width) == cell
