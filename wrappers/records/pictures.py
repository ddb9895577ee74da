"""Pictures that an agent was shown: pixels with a name by their content, and what a vision-language model reads of them.

A log names pictures (``Turn.images``); their pixels are stored next to it, one file per distinct picture (``picture_folder.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr

__all__ = ["MAX_PIXELS", "MAX_SIDE", "EncodedPicture", "Picture", "picture_in", "picture_of"]

MAX_SIDE: Final = 4096  # pixels
MAX_PIXELS: Final = 2**22  # of one picture; a board of 50 × 50 cells at 28 pixels has 1,960,000


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """One picture.

    Attributes:
        name: 32 hexadecimal digits, a digest of size and pixels: equal names are equal pictures.
        pixels: uint8 (H, W, 3), read only.
    """

    name: str
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPicture:
    """A picture as a vision-language model reads it, computed once where a prompt is built.

    Sampler and update take these same arrays.

    Attributes:
        picture: the picture.
        patches: float32 (t·h·w, D), normalised pixels of each patch, in the order of the model's image processor.
        grid: t, h and w, in patches.
        merge: number of patches per token and axis.
        token: id of the token that stands for each merged patch.
    """

    picture: Picture
    patches: NDArray[np.float32]
    grid: tuple[int, int, int]
    merge: int
    token: int

    @property
    def name(self) -> str:
        """The picture's name."""
        return self.picture.name

    @property
    def length(self) -> int:
        """Number of tokens that stand for the picture."""
        t, h, w = self.grid
        return t * (h // self.merge) * (w // self.merge)


def picture_of(pixels: Any) -> Picture:
    """A picture with its name.

    Raises:
        DataError: not uint8 (H, W, 3), or larger than ``MAX_SIDE`` or ``MAX_PIXELS``.
    """
    array = np.asarray(pixels)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or not array.size:
        raise DataError(f"a picture must be uint8 (height, width, 3), got {array.dtype} {short_repr(array.shape)}")
    height, width, _ = array.shape
    if max(height, width) > MAX_SIDE or height * width > MAX_PIXELS:
        raise DataError(
            f"a picture of {height} x {width} pixels is too large: at most {MAX_SIDE} a side and {MAX_PIXELS:,} in all are "
            "shown to a model; make the environment with smaller pictures (Sokoban: tile_size)"
        )
    array = np.array(array, order="C")  # a copy: environments draw into their frames again
    array.flags.writeable = False
    digest = blake2b(f"{height}x{width}:".encode("ascii"), digest_size=16)
    digest.update(array.data)
    return Picture(digest.hexdigest(), array)


def picture_in(observation: Any) -> NDArray[np.uint8] | None:
    """The pixels in an observation: an array uint8 (H, W, 3), or the entry "rgb" of a mapping; None for any other."""
    pixels = observation.get("rgb") if isinstance(observation, Mapping) else observation
    picture = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3
    return pixels if picture else None
