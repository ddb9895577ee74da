"""Tiles: one picture for each kind of cell, of our own drawing, at any whole size.

Shapes are formulas of the unit square, so a tile has the same bytes on every machine.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, WALL

__all__ = ["LEGEND", "TILE_SIZES", "tile_table"]

# what a prompt tells a vision-language model about the look of each kind of cell
LEGEND: Final = (
    "grey bricks are walls, pale cells are floor, a red ring with a dot is a target, a brown crate is a box, a green crate with a tick "
    "is a box on a target, a blue figure is the player, inside a red ring when on a target"
)
TILE_SIZES: Final = range(4, 257)  # in fewer pixels not every kind of cell has a look of its own
# Pixels of a vision token: Qwen2.5-VL's patches of 14 and Qwen3-VL's of 16, merged two by two.
_UNITS: Final = (28, 32)
BRICK, MORTAR = 0x5B6678, 0x3C4452
GROUND, SPECK = 0xF1ECDF, 0xDDD5C0
RED = 0xD83A34
WOOD, WOOD_DARK = 0xC98B45, 0x7A4B1C
STORED, STORED_DARK = 0x4FA85B, 0x1E5E2B
BODY, OUTLINE, SKIN = 0x2F6FD0, 0x173366, 0xF6CFA6
WHITE, INK = 0xFFFFFF, 0x222222

SAMPLES: Final = 4  # per pixel and axis, for antialiasing
Mask = npt.NDArray[np.bool_]
Tiles = npt.NDArray[np.uint8]


class Canvas:
    """One tile, oversampled; coordinates run from 0 to 1, x to the right, y down.

    Args:
        size: pixels per side.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        line = (np.arange(size * SAMPLES) + 0.5) / (size * SAMPLES)
        self.x, self.y = line[None, :], line[:, None]
        self.pixels = np.zeros((size * SAMPLES, size * SAMPLES, 3), dtype=np.uint8)

    def fill(self, colour: int) -> None:
        """Paint the whole tile in a colour, 0xRRGGBB."""
        self.pixels[:] = _rgb(colour)

    def paint(self, mask: Mask, colour: int) -> None:
        """Paint the masked samples in a colour, 0xRRGGBB."""
        self.pixels[mask] = _rgb(colour)

    def disc(self, x: float, y: float, radius: float) -> Mask:
        """Return the mask of a disc."""
        inside: Mask = (self.x - x) ** 2 + (self.y - y) ** 2 <= radius**2
        return inside

    def box(self, left: float, top: float, right: float, bottom: float) -> Mask:
        """Return the mask of a rectangle."""
        inside: Mask = (self.x >= left) & (self.x <= right) & (self.y >= top) & (self.y <= bottom)
        return inside

    def frame(self, inset: float, width: float) -> Mask:
        """Return the mask of a square frame, ``inset`` from the edge of the tile."""
        outer, inner = inset, inset + width
        return self.box(outer, outer, 1 - outer, 1 - outer) & ~self.box(inner, inner, 1 - inner, 1 - inner)

    def line(self, x1: float, y1: float, x2: float, y2: float, width: float) -> Mask:
        """Return the mask of a stroke with round ends."""
        dx, dy = x2 - x1, y2 - y1
        along = np.clip(((self.x - x1) * dx + (self.y - y1) * dy) / (dx * dx + dy * dy), 0, 1)
        inside: Mask = (self.x - x1 - along * dx) ** 2 + (self.y - y1 - along * dy) ** 2 <= (width / 2) ** 2
        return inside

    def image(self) -> Tiles:
        """Return the tile, uint8 (size, size, 3): each pixel is the mean of its samples."""
        blocks = self.pixels.reshape(self.size, SAMPLES, self.size, SAMPLES, 3)
        sums = blocks.sum(axis=1, dtype=np.uint16).sum(axis=2, dtype=np.uint16)
        tile: Tiles = ((sums + SAMPLES**2 // 2) // SAMPLES**2).astype(np.uint8)
        return tile


def _rgb(colour: int) -> tuple[int, int, int]:
    return colour >> 16, colour >> 8 & 255, colour & 255


def _wall(canvas: Canvas) -> None:
    canvas.fill(MORTAR)
    for row in range(4):
        shift = 0.25 if row % 2 else 0.0
        for column in range(-1, 3):
            x = column * 0.5 + shift
            canvas.paint(canvas.box(x + 0.03, row / 4 + 0.03, x + 0.47, row / 4 + 0.22), BRICK)


def _floor(canvas: Canvas) -> None:
    canvas.fill(GROUND)
    canvas.paint(canvas.frame(0, 0.02), SPECK)


def _target(canvas: Canvas) -> None:
    _floor(canvas)
    canvas.paint(canvas.disc(0.5, 0.5, 0.32) & ~canvas.disc(0.5, 0.5, 0.2), RED)
    canvas.paint(canvas.disc(0.5, 0.5, 0.1), RED)


def _crate(canvas: Canvas, light: int, dark: int) -> None:
    _floor(canvas)
    canvas.paint(canvas.box(0.07, 0.07, 0.93, 0.93), dark)
    canvas.paint(canvas.box(0.13, 0.13, 0.87, 0.87), light)
    canvas.paint(canvas.frame(0.21, 0.04), dark)


def _box(canvas: Canvas) -> None:
    _crate(canvas, WOOD, WOOD_DARK)
    canvas.paint(canvas.line(0.32, 0.32, 0.68, 0.68, 0.1), WOOD_DARK)
    canvas.paint(canvas.line(0.68, 0.32, 0.32, 0.68, 0.1), WOOD_DARK)


def _stored(canvas: Canvas) -> None:
    _crate(canvas, STORED, STORED_DARK)
    canvas.paint(canvas.line(0.33, 0.52, 0.45, 0.65, 0.12), WHITE)
    canvas.paint(canvas.line(0.45, 0.65, 0.68, 0.36, 0.12), WHITE)


def _figure(canvas: Canvas) -> None:
    canvas.paint(canvas.disc(0.5, 0.84, 0.3) & canvas.box(0, 0, 1, 0.92), OUTLINE)
    canvas.paint(canvas.disc(0.5, 0.85, 0.25) & canvas.box(0, 0, 1, 0.88), BODY)
    canvas.paint(canvas.disc(0.5, 0.36, 0.27), OUTLINE)
    canvas.paint(canvas.disc(0.5, 0.36, 0.22), SKIN)
    canvas.paint(canvas.disc(0.5, 0.36, 0.22) & canvas.box(0, 0, 1, 0.27), BODY)
    canvas.paint(canvas.disc(0.41, 0.38, 0.045) | canvas.disc(0.59, 0.38, 0.045), INK)
    canvas.paint(canvas.line(0.43, 0.49, 0.57, 0.49, 0.04), INK)


def _player(canvas: Canvas) -> None:
    _floor(canvas)
    _figure(canvas)


def _player_on_target(canvas: Canvas) -> None:
    _floor(canvas)
    canvas.paint(canvas.disc(0.5, 0.5, 0.49) & ~canvas.disc(0.5, 0.5, 0.38), RED)
    _figure(canvas)


# a drawing for each kind of cell, at its code
_DRAWN: Final = {
    WALL: _wall,
    FLOOR: _floor,
    TARGET: _target,
    BOX_ON_TARGET: _stored,
    BOX: _box,
    PLAYER: _player,
    PLAYER_ON_TARGET: _player_on_target,
}


def tile_table(tile_size: int) -> Tiles:
    """Return the tiles of all codes 0 to 6: uint8 (7, tile_size, tile_size, 3), read-only.

    A tile is drawn at its own size from formulas, so none is ever interpolated. A whole multiple of 28 or 32 pixels (a token of
    Qwen2.5-VL, of Qwen3-VL) is the tile of 28 or 32 with every pixel repeated: models see the same picture in more tokens.

    Raises:
        ConfigError: a size that is not an integer from 4 to 256.
    """
    if type(tile_size) is not int or tile_size not in TILE_SIZES:
        raise ConfigError(
            f"tile_size must be an integer from {TILE_SIZES[0]} to {TILE_SIZES[-1]}, got {short_repr(tile_size)}"
        )
    return _table(tile_size)


@lru_cache(maxsize=16)
def _table(tile_size: int) -> Tiles:
    unit = next((unit for unit in _UNITS if tile_size % unit == 0), tile_size)
    tiles = []
    for _, draw in sorted(_DRAWN.items()):
        canvas = Canvas(unit)
        draw(canvas)
        tiles.append(canvas.image())
    table = np.stack(tiles).repeat(tile_size // unit, axis=1).repeat(tile_size // unit, axis=2)
    table.setflags(write=False)
    return table
