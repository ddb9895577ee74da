"""Observations: a board as text, as a grid of codes, as binary planes, as an image, or as several of these.

Each view is a space and a function from boards to observations. Array views have a fixed shape: a smaller level is in the
upper left corner, and the rest is wall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Space

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.sokoban.levels.xsb import MAX_SIDE
from creditflow.envs.sokoban.observations.text import TextView
from creditflow.envs.sokoban.render import Film, Painter
from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET, WALL, grid
from creditflow.envs.spaces import TextSpace

__all__ = ["OBS_KEYS", "OBS_MODES", "View", "checked_shape", "make_view", "planes"]

OBS_KEYS: Final = ("text", "grid", "planes", "rgb")
OBS_MODES: Final = (*OBS_KEYS, "dict")
# channel of each plane: wall, target, box, player
_PLANES: Final = np.zeros((4, 7), dtype=np.uint8)
_PLANES[0, [WALL]] = 1
_PLANES[1, [TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET]] = 1
_PLANES[2, [BOX, BOX_ON_TARGET]] = 1
_PLANES[3, [PLAYER, PLAYER_ON_TARGET]] = 1


def planes(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return uint8 (…, 4, rows, columns) of 0 and 1 (walls, targets, boxes, player) from codes (…, rows, columns)."""
    channels = np.empty((*codes.shape[:-2], 4, *codes.shape[-2:]), dtype=np.uint8)
    for number, table in enumerate(_PLANES):
        channels[..., number, :, :] = table.take(codes)
    return channels


class View(NamedTuple):
    """One kind of observation.

    Attributes:
        space: its space.
        observe: function (board, width of the board) -> observation.
        legend: what its symbols, or its pictures, mean; "" for arrays of codes.
        arrays: whether it has an array, so that a board must fit into its shape.
    """

    space: Space[Any]
    observe: Callable[[bytes, int], Any]
    legend: str = ""
    arrays: bool = True


def make_view(
    obs_mode: str, text: TextView, shape: tuple[int, int], painter: Painter, keys: Sequence[str] | None = None
) -> View:
    """Make the view of an ``obs_mode``.

    - "text": ``text``.
    - "grid": uint8 (rows, columns), codes 0 wall, 1 floor, 2 target, 3 box on target, 4 box, 5 player, 6 player on target.
    - "planes": uint8 (4, rows, columns) of 0 and 1: walls, targets, boxes, player.
    - "rgb": uint8 (rows * tile_size, columns * tile_size, 3).
    - "dict": a dictionary of those in ``keys``, in that order; default all four.

    Raises:
        ConfigError: unknown mode or key (suggests the nearest one); keys without "dict", repeated keys, or none; images of
            more than ``MAX_FRAME_PIXELS``.
    """
    if obs_mode not in OBS_MODES:
        raise unknown_name_error("obs_mode", str(obs_mode), OBS_MODES)
    if obs_mode != "dict":
        if keys is not None:
            raise ConfigError(f"obs_keys requires obs_mode='dict', got obs_mode={obs_mode!r}")
        return _view(obs_mode, text, shape, painter)
    views = {key: _view(key, text, shape, painter) for key in _checked_keys(keys)}

    def observe(board: bytes, width: int) -> dict[str, Any]:
        return {key: view.observe(board, width) for key, view in views.items()}

    space = Dict({key: view.space for key, view in views.items()})
    legend = "; in the picture, ".join(views[key].legend for key in ("text", "rgb") if key in views)
    return View(space, observe, legend, any(view.arrays for view in views.values()))


def _checked_keys(keys: Any) -> tuple[str, ...]:
    if keys is None:
        return OBS_KEYS
    if not isinstance(keys, Sequence) or isinstance(keys, str) or not keys:
        raise ConfigError(f"obs_keys must be a list of at least one of {', '.join(OBS_KEYS)}, got {short_repr(keys)}")
    for key in keys:
        if key not in OBS_KEYS:
            raise unknown_name_error("key of obs_keys", str(key), OBS_KEYS)
    if len(set(keys)) != len(keys):
        raise ConfigError(f"obs_keys contains a key twice: {short_repr(list(keys))}")
    return tuple(keys)


def _view(name: str, text: TextView, shape: tuple[int, int], painter: Painter) -> View:
    if name == "text":
        draw = text.draw
        return View(TextSpace(), lambda board, _: draw(board), text.legend, False)

    def padded(board: bytes, width: int) -> npt.NDArray[np.uint8]:
        codes = grid(board, width)
        if codes.shape == shape:
            return codes
        full = np.full(shape, WALL, dtype=np.uint8)
        full[: codes.shape[0], : codes.shape[1]] = codes
        return full

    if name == "grid":
        return View(Box(0, 6, shape, np.uint8), padded)
    if name == "planes":
        return View(Box(0, 1, (4, *shape), np.uint8), lambda board, width: planes(padded(board, width)))
    film = Film(painter)
    space = Box(0, 255, painter.shape(*shape), np.uint8)
    return View(space, lambda board, width: film.frame(padded(board, width)), painter.legend)


def checked_shape(shape: Any) -> tuple[int, int]:
    """Return ``grid_shape``, checked.

    Raises:
        ConfigError: not two integers within the limits of levels.
    """
    sides = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
    if len(sides) != 2 or not all(type(side) is int and 3 <= side <= MAX_SIDE for side in sides):
        raise ConfigError(
            f"grid_shape must be two integers from 3 to {MAX_SIDE} (rows, columns), got {short_repr(shape)}"
        )
    return sides[0], sides[1]
