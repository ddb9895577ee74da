"""Observations of many boards: arrays by one look-up, images by redrawing the tiles that changed, texts one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.sokoban.levels.xsb import Level
from creditflow.envs.sokoban.observations.views import OBS_KEYS
from creditflow.envs.sokoban.render import Painter
from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET, WALL
from creditflow.envs.sokoban.vector.boards import Boards, Change, board_texts

__all__ = ["BatchView", "Frames", "planes"]

Codes = npt.NDArray[np.uint8]
_PLANES: Final = ((WALL,), (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET), (BOX, BOX_ON_TARGET), (PLAYER, PLAYER_ON_TARGET))
_IN_PLANE: Final = np.array([[code in members for code in range(8)] for members in _PLANES], dtype=np.uint8)


def planes(codes: Codes) -> Codes:
    """Return uint8 (n, 4, rows, columns) of 0 and 1 (walls, targets, boxes, player) from codes (n, rows, columns)."""
    channels = np.empty((len(codes), 4, *codes.shape[1:]), dtype=np.uint8)
    for number, table in enumerate(_IN_PLANE):
        channels[:, number] = table.take(codes)
    return channels


class Frames:
    """Images of N boards, kept from step to step: a step redraws the tiles that it changed, at most three a board.

    Args:
        painter: draws the seven tiles, the same as for a single environment.
        num_envs: number of boards, N.
        shape: rows and columns of a board.

    Attributes:
        pixels: uint8 (N, rows * tile_size, columns * tile_size, 3), a view of the images, which are changed in place.
    """

    def __init__(self, painter: Painter, num_envs: int, shape: tuple[int, int]) -> None:
        size, (rows, columns) = painter.tile_size, shape
        line = np.dtype(f"V{3 * size}")  # one line of a tile's pixels is one item
        strip = painter.paint(np.arange(7, dtype=np.uint8)[None])
        tiles = np.ascontiguousarray(strip.reshape(size, 7, 3 * size).swapaxes(0, 1))
        self._tiles: npt.NDArray[Any] = tiles.view(line)[:, :, 0]
        self._images: npt.NDArray[Any] = np.zeros((num_envs, rows, size, columns), dtype=line)
        self.pixels: Codes = self._images.view(np.uint8).reshape(num_envs, rows * size, columns * size, 3)

    def draw(self, codes: Codes, which: npt.NDArray[np.int64]) -> None:
        """Draw the boards with these numbers anew, uint8 (len(which), rows, columns)."""
        self._images[which] = self._tiles[codes].transpose(0, 1, 3, 2)

    def redraw(self, boards: Boards, change: Change) -> None:
        """Draw the tiles that a step changed."""
        cells, (rows, columns) = change.cells[change.changed], boards.shape
        board, cell = np.divmod(cells - columns, rows * columns)
        row, column = np.divmod(cell, columns)
        self._images[board, row, :, column] = self._tiles[boards.flat[cells]]


class BatchView:
    """The observations of N boards, in one of the modes of ``observations/views.py``.

    Args:
        obs_mode: the mode.
        keys: its keys if it is "dict".
        env: the single environment with these observations.
        num_envs: number of boards, N.
        copy: whether observations are the caller's own (see ``SokobanVectorEnv``).

    Attributes:
        single: function from a board and its width to the observation of a single environment.
    """

    def __init__(
        self, obs_mode: str, env: SokobanEnv, num_envs: int, *, copy: bool, keys: Sequence[str] | None = None
    ) -> None:
        self._copy = copy
        self._keys = tuple(OBS_KEYS if keys is None else keys) if obs_mode == "dict" else (obs_mode,)
        self._nested = obs_mode == "dict"
        self.single: Callable[[bytes, int], Any] = env.observe_board
        self._draw = env.text_view.draw
        self._frames = Frames(env.painter, num_envs, env.grid_shape) if "rgb" in self._keys else None

    def observe(self, boards: Boards) -> Any:
        """Return the observations of all boards: uint8 arrays, or a tuple of texts; with "dict" a dictionary of these."""
        observed = {key: self._observe(key, boards) for key in self._keys}
        return observed if self._nested else observed[self._keys[0]]

    def _observe(self, key: str, boards: Boards) -> Any:
        if key == "rgb" and self._frames is not None:
            return self._frames.pixels.copy() if self._copy else self._frames.pixels
        if key == "text":
            return tuple(
                [self._draw(board) for board in board_texts(boards.codes, boards.sides, np.arange(boards.num_envs))]
            )
        if key == "planes":
            return planes(boards.codes)
        if self._copy:
            return boards.codes.copy()
        codes = boards.codes
        codes.setflags(write=False)
        return codes

    def moved(self, boards: Boards, change: Change) -> None:
        """Take note of a step."""
        if self._frames is not None:
            self._frames.redraw(boards, change)

    def began(self, boards: Boards, which: npt.NDArray[np.int64]) -> None:
        """Take note of the beginning of episodes on the boards with these numbers."""
        if self._frames is not None:
            self._frames.draw(boards.codes[which], which)

    def require_size(self, levels: Sequence[Level], shape: tuple[int, int]) -> None:
        """Check that these levels, of which one is larger than ``shape``, can be observed.

        Raises:
            ConfigError: observations are arrays, of this shape.
        """
        if self._keys == ("text",):
            return
        rows, columns = shape
        level = next(level for level in levels if level.height > rows or level.width > columns)
        raise ConfigError(
            f"a level of {level.height} x {level.width} cells does not fit into observations of {rows} x {columns};"
            " make the environment with a larger grid_shape"
        )
