"""Boards as pictures.

Frames are gathered from the tile table, and a move repaints only the cells that it changed. Vision models split images into
patches: with 28-pixel tiles (the default) a cell is one Qwen2.5-VL token, with 56 pixels four.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.sokoban.tiles import LEGEND, tile_table

__all__ = ["FRAMES_PER_SECOND", "MAX_FRAME_PIXELS", "RENDER_MODES", "Film", "Painter", "check_render_mode"]

# 64 x 64 cells of 56 pixels, 38.5 MB: the largest image that Qwen2.5-VL's processor takes without shrinking it
MAX_FRAME_PIXELS: Final = 16384 * 28 * 28
_FEW: Final = 8  # cells; a move changes two or three
Codes = npt.NDArray[np.uint8]
Image = npt.NDArray[np.uint8]


class Painter:
    """Paints grids of cell codes with the tiles of one size.

    Args:
        tile_size: pixels per cell and axis, 4 to 256.

    Attributes:
        tiles: uint8 (7, tile_size, tile_size, 3), read-only, by cell code.
        legend: what each kind of cell looks like, in one line.

    Raises:
        ConfigError: an invalid size.
    """

    def __init__(self, tile_size: int = 28) -> None:
        self.tiles = tile_table(tile_size)
        self.tile_size = tile_size
        self.legend = LEGEND
        # A row of a tile is one opaque item, so that a frame is gathered in one call of take.
        self._rows = self.tiles.reshape(-1, 3 * tile_size).view(f"V{3 * tile_size}").ravel()
        self._line = np.arange(tile_size, dtype=np.intp)[:, None]

    def shape(self, height: int, width: int) -> tuple[int, int, int]:
        """Return the shape of a frame of so many cells.

        Raises:
            ConfigError: a frame of more than ``MAX_FRAME_PIXELS``; names the largest tile that fits.
        """
        size = self.tile_size
        if height * width * size**2 > MAX_FRAME_PIXELS:
            fits = int((MAX_FRAME_PIXELS / (height * width)) ** 0.5)
            raise ConfigError(
                f"a frame of {height} x {width} cells with tile_size={size} has {height * width * size**2:,} pixels, more than "
                f"{MAX_FRAME_PIXELS:,}; choose a tile_size of at most {fits}, or smaller levels"
            )
        return height * size, width * size, 3

    def paint(self, grids: Codes) -> Image:
        """Paint any number of boards of one shape.

        Args:
            grids: uint8 (…, height, width), codes 0 to 6.

        Returns:
            uint8 (…, height * tile_size, width * tile_size, 3).

        Raises:
            ConfigError: frames of more than ``MAX_FRAME_PIXELS`` each.
        """
        shape = self.shape(*grids.shape[-2:])
        index = grids[..., None, :].astype(np.intp) * self.tile_size + self._line
        return self._rows.take(index.ravel()).view(np.uint8).reshape(*grids.shape[:-2], *shape)


class Film:
    """Paints the boards of one episode, one after the other.

    Args:
        painter: what paints.
    """

    def __init__(self, painter: Painter) -> None:
        self._painter = painter
        self._codes: Codes | None = None
        self._frame: Image = np.zeros((0, 0, 3), dtype=np.uint8)

    def frame(self, codes: Codes) -> Image:
        """Paint uint8 (height, width) as a new array; equals ``painter.paint(codes)``, in less time after a move."""
        before, self._codes = self._codes, codes.copy()
        if before is not None and before.shape == codes.shape:
            changed = np.flatnonzero(before.ravel() != codes.ravel())
            if len(changed) <= _FEW:
                size, width = self._painter.tile_size, codes.shape[1]
                cells = self._frame.reshape(codes.shape[0], size, width, 3 * size)
                for cell in changed.tolist():
                    row, column = divmod(cell, width)
                    cells[row, :, column] = self._painter.tiles[codes[row, column]].reshape(size, 3 * size)
                return self._frame.copy()
        self._frame = self._painter.paint(codes)
        return self._frame.copy()


RENDER_MODES: Final = ("rgb_array", "ansi")
FRAMES_PER_SECOND: Final = 5


def check_render_mode(render_mode: Any) -> None:
    """Check that a render mode is known.

    Raises:
        ConfigError: an unknown mode.
    """
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ConfigError(
            f"render_mode must be None or one of {', '.join(RENDER_MODES)}, got {short_repr(render_mode)}"
        )
