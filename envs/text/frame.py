"""A text as a frame of a video, for ``render_mode="rgb_array"`` of environments whose states are texts."""

from __future__ import annotations

import textwrap
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["FRAMES_PER_SECOND", "RENDER_MODES", "check_render_mode", "rendered", "text_frame"]

RENDER_MODES: Final = ("ansi", "rgb_array")
FRAMES_PER_SECOND: Final = 4
WIDTH, HEIGHT = 960, 720  # pixels; all frames are equal in size, as a video needs them
COLUMNS, FONT_SIZE, LINE, MARGIN = 110, 16, 20, 16


def check_render_mode(mode: str | None) -> None:
    """Check the argument ``render_mode``.

    Raises:
        ConfigError: neither None nor one of ``RENDER_MODES``.
    """
    if mode is not None and mode not in RENDER_MODES:
        raise ConfigError(f"render_mode must be None, 'ansi' or 'rgb_array', got {short_repr(mode)}")


def rendered(text: str, mode: str | None) -> Any:
    """What ``render`` returns of a state's text: the text, a frame (see ``text_frame``), or None without a mode."""
    if mode == "rgb_array":
        return text_frame(text)
    return text if mode == "ansi" else None


def text_frame(text: str) -> npt.NDArray[np.uint8]:
    """Draw a text in black on white; of a longer one the end, after a line with "…".

    Returns:
        uint8 (720, 960, 3).
    """
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, COLUMNS) or [""]]
    room = (HEIGHT - 2 * MARGIN) // LINE
    if len(lines) > room:
        lines = ["…", *lines[1 - room :]]
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(FONT_SIZE)
    for number, line in enumerate(lines):
        draw.text((MARGIN, MARGIN + number * LINE), line, fill="black", font=font)
    return np.asarray(image).copy()
