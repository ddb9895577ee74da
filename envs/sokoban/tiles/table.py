"""The table of tiles of a theme at a size, from which pictures are gathered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.sokoban.tiles.classic import CLASSIC
from creditflow.envs.sokoban.tiles.plain import PLAIN
from creditflow.envs.sokoban.tiles.theme import Canvas, Theme

__all__ = ["LEGENDS", "THEMES", "TILE_SIZES", "tile_table"]

THEMES: Final[Mapping[str, Theme]] = {"plain": PLAIN, "classic": CLASSIC}
# what a prompt tells a vision-language model about the look of each kind of cell
LEGENDS: Final[Mapping[str, str]] = {
    "plain": (
        "grey bricks are walls, pale cells are floor, a red ring with a dot is a target, a brown crate is a box, a green crate with a tick "
        "is a box on a target, a blue figure is the player, inside a red ring when on a target"
    ),
    "classic": (
        "brown bricks are walls, black cells are floor, a dark red square with a red outline is a target, a yellow crate with an X is a "
        "box, a red crate with a white X is a box on a target, a green alien is the player, inside a red outline when on a target"
    ),
}
TILE_SIZES: Final = range(4, 257)  # in fewer pixels not every kind of cell has a look of its own
# Pixels of a vision token: Qwen2.5-VL's patches of 14 and Qwen3-VL's of 16, merged two by two.
_UNITS: Final = (28, 32)


def tile_table(theme: str, tile_size: int) -> npt.NDArray[np.uint8]:
    """Return the tiles of all codes 0 to 6: uint8 (7, tile_size, tile_size, 3), read-only.

    A tile is drawn at its own size from formulas, so none is ever interpolated. A whole multiple of 28 or 32 pixels (a token of
    Qwen2.5-VL, of Qwen3-VL) is the tile of 28 or 32 with every pixel repeated: models see the same picture in more tokens.

    Raises:
        ConfigError: an unknown theme (suggests the nearest one), or a size that is not an integer from 4 to 256.
    """
    if not isinstance(theme, str) or theme not in THEMES:
        raise unknown_name_error("theme", str(theme), THEMES)
    if type(tile_size) is not int or tile_size not in TILE_SIZES:
        raise ConfigError(
            f"tile_size must be an integer from {TILE_SIZES[0]} to {TILE_SIZES[-1]}, got {short_repr(tile_size)}"
        )
    return _table(theme, tile_size)


@lru_cache(maxsize=16)
def _table(theme: str, tile_size: int) -> npt.NDArray[np.uint8]:
    unit = next((unit for unit in _UNITS if tile_size % unit == 0), tile_size)
    tiles = []
    for _, draw in sorted(THEMES[theme].by_code.items()):
        canvas = Canvas(unit)
        draw(canvas)
        tiles.append(canvas.image())
    table = np.stack(tiles).repeat(tile_size // unit, axis=1).repeat(tile_size // unit, axis=2)
    table.setflags(write=False)
    return table
