"""Themes: one drawing for each kind of cell, on a canvas whose shapes are formulas of the unit square.

So a tile has the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, WALL

__all__ = ["Canvas", "Draw", "Mask", "Theme", "Tile"]

SAMPLES: Final = 4  # per pixel and axis, for antialiasing
Mask = npt.NDArray[np.bool_]
Tile = npt.NDArray[np.uint8]


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
        return self.oval(x, y, radius, radius)

    def oval(self, x: float, y: float, wide: float, high: float) -> Mask:
        """Return the mask of an ellipse with these half-axes."""
        inside: Mask = ((self.x - x) / wide) ** 2 + ((self.y - y) / high) ** 2 <= 1
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

    def image(self) -> Tile:
        """Return the tile, uint8 (size, size, 3): each pixel is the mean of its samples."""
        blocks = self.pixels.reshape(self.size, SAMPLES, self.size, SAMPLES, 3)
        sums = blocks.sum(axis=1, dtype=np.uint16).sum(axis=2, dtype=np.uint16)
        tile: Tile = ((sums + SAMPLES**2 // 2) // SAMPLES**2).astype(np.uint8)
        return tile


def _rgb(colour: int) -> tuple[int, int, int]:
    return colour >> 16, colour >> 8 & 255, colour & 255


Draw = Callable[[Canvas], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """The drawings of a theme."""

    wall: Draw
    floor: Draw
    target: Draw
    box: Draw
    box_on_target: Draw
    player: Draw
    player_on_target: Draw

    @property
    def by_code(self) -> Mapping[int, Draw]:
        """The drawing of each code of a board."""
        return {
            WALL: self.wall, FLOOR: self.floor, TARGET: self.target, BOX: self.box, BOX_ON_TARGET: self.box_on_target,
            PLAYER: self.player, PLAYER_ON_TARGET: self.player_on_target,
        }  # fmt: skip
