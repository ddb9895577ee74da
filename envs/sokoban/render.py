"""Boards as images: tiles are drawn from formulas at every size, so none is scaled.

Vision models split images into patches: with 28-pixel tiles (the default) a cell is one Qwen2.5-VL token, with 56 pixels
four.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.sokoban.rules import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, WALL

__all__ = ["Painter"]

SAMPLES: Final = 4  # per pixel and axis, for antialiasing
Mask = npt.NDArray[np.bool_]
Image = npt.NDArray[np.uint8]

COLOURS: Final = {
    "brick": (0x5B, 0x66, 0x78),
    "mortar": (0x3C, 0x44, 0x52),
    "floor": (0xF1, 0xEC, 0xDF),
    "speck": (0xE4, 0xDD, 0xCB),
    "target": (0xD8, 0x3A, 0x34),
    "crate": (0xC9, 0x8B, 0x45),
    "crate_dark": (0x7A, 0x4B, 0x1C),
    "stored": (0x4F, 0xA8, 0x5B),
    "stored_dark": (0x1E, 0x5E, 0x2B),
    "white": (0xFF, 0xFF, 0xFF),
    "body": (0x2F, 0x6F, 0xD0),
    "outline": (0x17, 0x33, 0x66),
    "skin": (0xF6, 0xCF, 0xA6),
    "ink": (0x22, 0x22, 0x22),
}


class _Canvas:
    """One tile, oversampled; coordinates run from 0 to 1, x to the right, y down."""

    def __init__(self, size: int) -> None:
        self.size = size
        line = (np.arange(size * SAMPLES) + 0.5) / (size * SAMPLES)
        self.x, self.y = np.meshgrid(line, line)
        self.pixels = np.zeros((size * SAMPLES, size * SAMPLES, 3), dtype=np.uint8)

    def paint(self, mask: Mask, colour: str) -> None:
        self.pixels[mask] = COLOURS[colour]

    def disc(self, x: float, y: float, radius: float) -> Mask:
        inside: Mask = (self.x - x) ** 2 + (self.y - y) ** 2 <= radius**2
        return inside

    def box(self, left: float, top: float, right: float, bottom: float) -> Mask:
        inside: Mask = (self.x >= left) & (self.x <= right) & (self.y >= top) & (self.y <= bottom)
        return inside

    def line(self, x1: float, y1: float, x2: float, y2: float, width: float) -> Mask:
        """Return the mask of a stroke with round ends."""
        dx, dy = x2 - x1, y2 - y1
        along = np.clip(((self.x - x1) * dx + (self.y - y1) * dy) / (dx * dx + dy * dy), 0, 1)
        inside: Mask = (self.x - x1 - along * dx) ** 2 + (self.y - y1 - along * dy) ** 2 <= (width / 2) ** 2
        return inside

    def image(self) -> Image:
        """Return the tile, uint8 (size, size, 3)."""
        blocks = self.pixels.reshape(self.size, SAMPLES, self.size, SAMPLES, 3).astype(np.uint32)
        tile: Image = ((blocks.sum(axis=(1, 3)) + SAMPLES**2 // 2) // SAMPLES**2).astype(np.uint8)
        return tile


def _wall(canvas: _Canvas) -> None:
    canvas.paint(canvas.box(0, 0, 1, 1), "mortar")
    for row in range(4):
        shift = 0.25 if row % 2 else 0.0
        for column in range(-1, 3):
            left = column * 0.5 + shift
            canvas.paint(canvas.box(left + 0.03, row / 4 + 0.03, left + 0.47, row / 4 + 0.22), "brick")


def _floor(canvas: _Canvas) -> None:
    canvas.paint(canvas.box(0, 0, 1, 1), "floor")
    edge = canvas.box(0, 0, 1, 1) & ~canvas.box(0.02, 0.02, 0.98, 0.98)
    canvas.paint(edge, "speck")


def _target(canvas: _Canvas, radius: float = 0.3) -> None:
    _floor(canvas)
    canvas.paint(canvas.disc(0.5, 0.5, radius) & ~canvas.disc(0.5, 0.5, radius - 0.1), "target")
    canvas.paint(canvas.disc(0.5, 0.5, 0.09), "target")


def _crate(canvas: _Canvas, light: str, dark: str) -> None:
    canvas.paint(canvas.box(0.08, 0.08, 0.92, 0.92), dark)
    canvas.paint(canvas.box(0.13, 0.13, 0.87, 0.87), light)
    canvas.paint(canvas.box(0.22, 0.22, 0.78, 0.78), dark)
    canvas.paint(canvas.box(0.26, 0.26, 0.74, 0.74), light)


def _box(canvas: _Canvas) -> None:
    _floor(canvas)
    _crate(canvas, "crate", "crate_dark")
    canvas.paint(canvas.line(0.3, 0.3, 0.7, 0.7, 0.09), "crate_dark")
    canvas.paint(canvas.line(0.7, 0.3, 0.3, 0.7, 0.09), "crate_dark")


def _stored(canvas: _Canvas) -> None:
    _floor(canvas)
    _crate(canvas, "stored", "stored_dark")
    canvas.paint(canvas.line(0.33, 0.52, 0.45, 0.65, 0.11), "white")
    canvas.paint(canvas.line(0.45, 0.65, 0.68, 0.36, 0.11), "white")


def _figure(canvas: _Canvas) -> None:
    canvas.paint(canvas.disc(0.5, 0.84, 0.3) & canvas.box(0, 0, 1, 0.92), "outline")
    canvas.paint(canvas.disc(0.5, 0.85, 0.25) & canvas.box(0, 0, 1, 0.88), "body")
    canvas.paint(canvas.disc(0.5, 0.36, 0.27), "outline")
    canvas.paint(canvas.disc(0.5, 0.36, 0.22), "skin")
    canvas.paint(canvas.disc(0.5, 0.36, 0.22) & canvas.box(0, 0, 1, 0.27), "body")
    canvas.paint(canvas.disc(0.41, 0.38, 0.045) | canvas.disc(0.59, 0.38, 0.045), "ink")
    canvas.paint(canvas.line(0.43, 0.49, 0.57, 0.49, 0.04), "ink")


def _player(canvas: _Canvas) -> None:
    _floor(canvas)
    _figure(canvas)


def _player_on_target(canvas: _Canvas) -> None:
    _floor(canvas)
    canvas.paint(canvas.disc(0.5, 0.5, 0.49) & ~canvas.disc(0.5, 0.5, 0.39), "target")
    _figure(canvas)


_ART: Final = {
    WALL: _wall,
    FLOOR: _floor,
    TARGET: _target,
    BOX_ON_TARGET: _stored,
    BOX: _box,
    PLAYER: _player,
    PLAYER_ON_TARGET: _player_on_target,
}


@lru_cache(maxsize=8)
def _tile_rows(size: int) -> npt.NDArray[Any]:
    """Return all tiles as rows of pixels: opaque items of 3 * size bytes, (7 * size,), tile by tile."""
    tiles = []
    for code in range(len(_ART)):
        canvas = _Canvas(size)
        _ART[code](canvas)
        tiles.append(canvas.image())
    return np.ascontiguousarray(np.stack(tiles)).reshape(-1, 3 * size).view(f"V{3 * size}").ravel()


class Painter:
    """Paints grids of cell codes with tiles of one size.

    Args:
        tile_size: pixels per cell and axis, 1 to 256.
    """

    def __init__(self, tile_size: int) -> None:
        self.tile_size = tile_size
        self._rows = _tile_rows(tile_size)
        self._line = np.arange(tile_size, dtype=np.intp)[None, :, None]

    def paint(self, grid: npt.NDArray[np.uint8]) -> Image:
        """Paint uint8 (height, width) of codes 0 to 6 as uint8 (height * tile_size, width * tile_size, 3)."""
        height, width = grid.shape
        index = grid[:, None, :] * np.intp(self.tile_size) + self._line
        rows = self._rows.take(index.ravel())
        return rows.view(np.uint8).reshape(height * self.tile_size, width * self.tile_size, 3)
