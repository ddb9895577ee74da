"""``render_mode="human"``: a window of the standard library's Tk, opened at the first frame."""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.errors import ConfigError, EpisodeError, short_repr

__all__ = ["FRAMES_PER_SECOND", "RENDER_MODES", "Window", "check_render_mode", "missing_for_window"]

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
