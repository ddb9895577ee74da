"""Observations: a board as text, as a grid of codes, as binary planes, or as an image.

Each view is a space and a function from boards to observations. Array views have a fixed shape: a smaller level is in the
upper left corner, and the rest is wall.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Space

from creditflow.envs.errors import unknown_name_error
from creditflow.envs.sokoban.observations.text import TextView
from creditflow.envs.sokoban.render import Painter
from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET, WALL, grid
from creditflow.envs.spaces import TextSpace

__all__ = ["OBS_MODES", "View", "make_view"]

OBS_MODES: Final = ("text", "grid", "planes", "rgb")
# channel of each plane: wall, target, box, player
_PLANES: Final = np.zeros((4, 7), dtype=np.uint8)
_PLANES[0, [WALL]] = 1
_PLANES[1, [TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET]] = 1
_PLANES[2, [BOX, BOX_ON_TARGET]] = 1
_PLANES[3, [PLAYER, PLAYER_ON_TARGET]] = 1


class View(NamedTuple):
    """An observation space, and the function (board, width of the board) -> observation."""

    space: Space[Any]
    observe: Callable[[bytes, int], Any]


def make_view(obs_mode: str, text: TextView, shape: tuple[int, int], tile_size: int) -> View:
    """Make the view of an ``obs_mode``.

    - "text": ``text``.
    - "grid": uint8 (rows, columns), codes 0 wall, 1 floor, 2 target, 3 box on target, 4 box, 5 player, 6 player on target.
    - "planes": uint8 (4, rows, columns) of 0 and 1: walls, targets, boxes, player.
    - "rgb": uint8 (rows * tile_size, columns * tile_size, 3).

    Raises:
        ConfigError: unknown mode; suggests the nearest one.
    """
    if obs_mode == "text":
        draw = text.draw
        return View(TextSpace(), lambda board, _: draw(board))

    def padded(board: bytes, width: int) -> npt.NDArray[np.uint8]:
        codes = grid(board, width)
        if codes.shape == shape:
            return codes
        full = np.full(shape, WALL, dtype=np.uint8)
        full[: codes.shape[0], : codes.shape[1]] = codes
        return full

    if obs_mode == "grid":
        return View(Box(0, 6, shape, np.uint8), padded)
    if obs_mode == "planes":
        return View(Box(0, 1, (4, *shape), np.uint8), lambda board, width: _PLANES[:, padded(board, width)])
    if obs_mode == "rgb":
        painter = Painter(tile_size)
        space = Box(0, 255, (shape[0] * tile_size, shape[1] * tile_size, 3), np.uint8)
        return View(space, lambda board, width: painter.paint(padded(board, width)))
    raise unknown_name_error("obs_mode", str(obs_mode), OBS_MODES)
