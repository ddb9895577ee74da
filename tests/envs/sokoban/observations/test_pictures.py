"""Pictures: they determine the board at every size, and are never scaled by interpolation."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

import creditflow
from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban import SokobanEnv, parse_level
from creditflow.envs.sokoban.render import MAX_FRAME_PIXELS, Film, Painter
from creditflow.envs.sokoban.rules import grid
from creditflow.envs.sokoban.tiles import tile_table

SIZES = (4, 5, 8, 14, 16, 28, 32, 33, 56, 64)
GRIDS = st.tuples(st.integers(1, 7), st.integers(1, 7)).flatmap(
    lambda shape: arrays(np.uint8, shape, elements=st.integers(0, 6))
)
ROOM = "#######\n#  .  #\n# $ @ #\n#  $ .#\n#######"


def decoded(picture, size):
    """Return the codes whose tiles are equal to the picture's, cell by cell."""
    tiles = picture.reshape(picture.shape[0] // size, size, -1, size, 3).swapaxes(1, 2)
    equal = (tiles[:, :, None] == tile_table(size)).all(axis=(3, 4, 5))
    assert (equal.sum(axis=2) == 1).all()
    return equal.argmax(axis=2).astype(np.uint8)


@settings(deadline=None, max_examples=30)
@given(GRIDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_picture_determines_the_grid(size, codes):
    picture = Painter(size).paint(codes)
    assert picture.shape == (codes.shape[0] * size, codes.shape[1] * size, 3)
    assert picture.dtype == np.uint8
    assert np.array_equal(decoded(picture, size), codes)


@pytest.mark.parametrize("size", [*range(4, 34), 48, 77, 256])
def test_every_kind_of_cell_looks_different(size):
    tiles = tile_table(size).astype(int)
    for one in range(7):
        for other in range(one):
            assert np.abs(tiles[one] - tiles[other]).mean() > 8, (one, other)


@pytest.mark.parametrize(("unit", "times"), [(28, 2), (28, 3), (28, 8), (32, 2), (32, 5)])
def test_whole_multiples_of_a_vision_token_repeat_pixels(unit, times):
    small, large = tile_table(unit), tile_table(unit * times)
    for row in range(times):
        for column in range(times):
            assert np.array_equal(large[:, row::times, column::times], small)


def test_the_tiles_are_pinned():
    assert hashlib.sha256(tile_table(28).tobytes()).hexdigest()[:16] == "53c74e74965418a5"


def test_tables_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        Painter(28).tiles[0] = 0


@settings(deadline=None, max_examples=30)
@given(arrays(np.uint8, (3, 4, 5), elements=st.integers(0, 6)))
def test_many_boards_are_painted_as_one_by_one(grids):
    painter = Painter(8)
    assert np.array_equal(painter.paint(grids), np.stack([painter.paint(codes) for codes in grids]))
    assert painter.paint(grids[:0]).shape == (0, 32, 40, 3)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 6)), max_size=40), st.integers(1, 20))
def test_a_film_shows_what_painting_every_frame_shows(changes, together):
    painter = Painter(5)
    film, codes = Film(painter), np.zeros((4, 5), np.uint8)
    frames = [film.frame(codes)]
    for number, (row, column, code) in enumerate(changes):
        codes[row, column] = code
        if number % together == 0:
            frames.append(film.frame(codes))
            assert np.array_equal(frames[-1], painter.paint(codes))
            frames[-1][:] = 9  # a frame belongs to its receiver
    larger = np.ones((6, 6), np.uint8)
    assert np.array_equal(film.frame(larger), painter.paint(larger))


def test_episodes_in_pictures_are_episodes_in_codes():
    """The pictures of a random episode, decoded, are the grids of the same episode."""
    seen = SokobanEnv(level=ROOM, action_mode="discrete", obs_mode="rgb")
    known = SokobanEnv(level=ROOM, action_mode="discrete", obs_mode="grid")
    rng = np.random.default_rng(1)
    frames = [(seen.reset()[0], known.reset()[0])]
    frames += [(seen.step(action)[0], known.step(action)[0]) for action in rng.integers(4, size=100).tolist()]
    for picture, codes in frames:
        assert np.array_equal(decoded(picture, 28), codes)


def test_a_level_too_large_to_draw_is_rejected_when_it_is_rendered_or_observed():
    side = 50
    big = "\n".join(
        ["#" * side, "#@$." + " " * (side - 5) + "#", *["#" + " " * (side - 2) + "#"] * (side - 3), "#" * side]
    )
    env = SokobanEnv(level=ROOM, render_mode="rgb_array", tile_size=100)
    env.reset(options={"task": big})
    with pytest.raises(ConfigError, match="tile_size of at most 71, or smaller levels"):
        env.render()
    assert 50 * 50 * 71**2 <= MAX_FRAME_PIXELS < 50 * 50 * 72**2
    with pytest.raises(ConfigError, match="tile_size of at most 71"):
        SokobanEnv(level=big, obs_mode="rgb", tile_size=72)
    assert creditflow.make("sokoban", level=big, tile_size=256).reset()[0]  # a text needs no frame


def test_the_page_shows_the_tiles_as_they_are():
    """Two states; the second with the player on a target."""
    states = ("######\n#   .#\n#.$@ #\n# $  #\n#  * #\n######", "######\n#   +#\n#*   #\n# $  #\n#  * #\n######")
    boards = [grid(level.board, level.width) for level in map(parse_level, states)]
    drawn = np.concatenate([Painter(28).paint(board) for board in boards], axis=1)
    page = Path(__file__).parents[4] / "assets" / "images" / "sokoban_tiles.png"
    with Image.open(page) as image:
        assert np.array_equal(np.asarray(image.convert("RGB")), drawn)
