"""Pictures inside the page, as data of its own: the tiles that boards are drawn with, and frames stored beside a log."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.errors import DataError
from creditflow.envs.sokoban.tiles import tile_table

__all__ = ["MAX_FRAME_BYTES", "TILE", "Frames", "tile_strip"]

TILE: Final = 28
MAX_FRAME_BYTES: Final = 16 * 2**20  # of all frames of a page, as data URIs


def _data_uri(pixels: npt.NDArray[np.uint8]) -> str:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def tile_strip() -> str:
    """Return the seven tiles side by side, by cell code, as a data URI."""
    return _data_uri(np.concatenate(list(tile_table(TILE)), axis=1))


class Frames:
    """The frames of a page: each once, up to ``MAX_FRAME_BYTES``.

    Args:
        read: pixels of a stored frame by its name, uint8 (H, W, 3); None if no frames are stored.

    Attributes:
        uris: data URIs in the order of their numbers.
        left_out: number of distinct frames over the limit, missing or damaged.
    """

    def __init__(self, read: Callable[[str], npt.NDArray[np.uint8]] | None) -> None:
        self._read = read
        self._numbers: dict[str, int] = {}
        self._bytes = 0
        self.uris: list[str] = []

    @property
    def left_out(self) -> int:
        """Number of distinct frames that are not in the page."""
        return sum(number < 0 for number in self._numbers.values())

    def numbers(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of the frames with these names, without those that are left out."""
        if self._read is None:
            return []
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = self._add(name, self._read)
        return [self._numbers[name] for name in names if self._numbers[name] >= 0]

    def _add(self, name: str, read: Callable[[str], Any]) -> int:
        if self._bytes >= MAX_FRAME_BYTES:
            return -1
        try:
            uri = _data_uri(read(name))
        except DataError:  # counted, and the page says so
            return -1
        if self._bytes + len(uri) > MAX_FRAME_BYTES:
            return -1
        self._bytes += len(uri)
        self.uris.append(uri)
        return len(self.uris) - 1
