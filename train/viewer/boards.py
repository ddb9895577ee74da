"""Boards of a Sokoban log, from its own states: the level is in the payload, and every board is checked by its state key.

Actions are replayed by the rules; a board is shown only if its key is the recorded one, so a picture is never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from creditflow.envs.errors import CreditflowError
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.sokoban.rules import EDGE, PLAYER, PLAYER_ON_TARGET, direction_offsets, move, state_key
from creditflow.wrappers.records.group import Group

__all__ = ["board_of_codes", "group_boards"]

DIRECTIONS: Final = ("up", "down", "left", "right")
MAX_WORDS: Final = 200  # of one action
_WORDS: Final = re.compile(r"(push |move )?(up|down|left|right)|no operation", re.IGNORECASE)
_DIGITS: Final = bytes.maketrans(bytes((*range(7), EDGE)), b"0123456/")


def group_boards(group: Group) -> dict[str, bytes]:
    """Return the boards of a group by state key, as far as they follow from the level and the recorded actions.

    Args:
        group: any group; one without a Sokoban level in its payload has none.
    """
    try:
        level = parse_level(str(group.task.get("xsb", "")))
    except CreditflowError:
        return {}
    boards = {state_key(level.board): level.board}
    offsets = direction_offsets(level.width)
    for trajectory in group.trajectories:
        for turn in trajectory.turns:
            board = boards.get(turn.state_key)
            if board is None or turn.next_state_key in boards:
                continue
            for after in _after(board, turn.action, offsets):
                if state_key(after) == turn.next_state_key:
                    boards[turn.next_state_key] = after
                    break
    return boards


def _after(board: bytes, action: str, offsets: tuple[int, int, int, int]) -> Iterator[bytes]:
    """The boards after each move that an action names in order; then those one move away, for actions in numbers."""
    player = next(cell for cell, code in enumerate(board) if code in (PLAYER, PLAYER_ON_TARGET))
    now, cell = board, player
    for count, match in enumerate(_WORDS.finditer(action[:4000])):
        if count >= MAX_WORDS:
            return
        if match[2]:
            push = (match[1] or "").casefold() != "move "
            now, cell, *_ = move(now, cell, offsets[DIRECTIONS.index(match[2].casefold())], push)
            yield now
    for offset in offsets:
        yield move(board, player, offset)[0]


def board_of_codes(board: bytes) -> str:
    r"""Return a board as digits, rows separated by "/".

    >>> from creditflow.envs.sokoban import parse_level
    >>> board_of_codes(parse_level("#####\n#@$.#\n#####").board)
    '00000/05420/00000'
    """
    return board.translate(_DIGITS).decode("ascii")
