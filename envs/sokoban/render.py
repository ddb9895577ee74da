"""Boards as pictures, and ``render_mode="human"``: a window of the standard library's Tk, opened at the first frame.

Frames are gathered from the tile table, and a move repaints only the cells that it changed. Vision models split images into
patches: with 28-pixel tiles (the default) a cell is one Qwen2.5-VL token, with 56 pixels four.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.errors import ConfigError, EpisodeError, short_repr
from creditflow.envs.sokoban.tiles import LEGEND, tile_table

__all__ = [
    "FRAMES_PER_SECOND",
    "MAX_FRAME_PIXELS",
    "RENDER_MODES",
    "Film",
    "Painter",
    "Window",
    "check_render_mode",
    "missing_for_window",
]

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


RENDER_MODES: Final = ("rgb_array", "ansi", "human")
FRAMES_PER_SECOND: Final = 5


def missing_for_window() -> str:
    """Return what a window lacks on this machine, "" if nothing."""
    if find_spec("tkinter") is None:
        return "Python's tkinter (package python3-tk of most systems)"
    needs_server = sys.platform not in ("win32", "darwin")
    return "a display ($DISPLAY is not set)" if needs_server and not os.environ.get("DISPLAY") else ""


def check_render_mode(render_mode: Any) -> None:
    """Check that a render mode is known and works here.

    Raises:
        ConfigError: an unknown mode, or "human" without a display; says what is missing.
    """
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ConfigError(
            f"render_mode must be None or one of {', '.join(RENDER_MODES)}, got {short_repr(render_mode)}"
        )
    if render_mode == "human" and (missing := missing_for_window()):
        raise ConfigError(
            f"render_mode='human' opens a window, which needs {missing}; use render_mode='rgb_array' for pictures or 'ansi' for text"
        )


class Window:
    """A window that shows one frame after the other, at most ``FRAMES_PER_SECOND``.

    Args:
        title: its title.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._root: Any = None
        self._label: Any = None
        self._picture: Any = None  # Tk keeps no reference of its own
        self._shown = 0.0

    def show(self, frame: npt.NDArray[np.uint8]) -> None:
        """Show a frame, uint8 (height, width, 3), after the time that the last one must stay.

        Raises:
            ConfigError: the display cannot be opened.
            EpisodeError: somebody closed the window.
        """
        import tkinter as tk

        if self._root is None:
            try:
                self._root = tk.Tk()
            except tk.TclError as error:
                raise ConfigError(
                    f"render_mode='human' cannot open a window ({short_repr(str(error))}); use 'rgb_array' or 'ansi'"
                ) from error
            self._root.title(self._title)
            self._root.resizable(False, False)
            self._label = tk.Label(self._root, borderwidth=0)
            self._label.pack()
        time.sleep(max(0.0, self._shown + 1 / FRAMES_PER_SECOND - time.monotonic()))
        height, width, _ = frame.shape
        try:
            image = tk.PhotoImage(
                master=self._root, data=b"P6 %d %d 255\n" % (width, height) + frame.tobytes(), format="PPM"
            )
            self._label.configure(image=image)
            self._root.update()
        except tk.TclError as error:
            raise EpisodeError(
                "the window of render_mode='human' was closed: make the environment again, or without it"
            ) from error
        self._picture, self._shown = image, time.monotonic()

    def close(self) -> None:
        """Close the window; the next frame opens another."""
        root, self._root, self._label, self._picture = self._root, None, None, None
        if root is not None:
            import tkinter as tk

            try:
                root.destroy()
            except tk.TclError:
                return  # somebody closed it before
