"""Texts, grids, planes and images show the same board, and all of it."""

from __future__ import annotations

import numpy as np
import pytest

import creditflow
from creditflow.envs.sokoban import parse_level
from creditflow.envs.sokoban.observations.text import SYMBOL_SETS, TextView
from creditflow.envs.sokoban.render import Painter
from creditflow.envs.sokoban.rules import grid

# every kind of cell once
LEVEL = parse_level("########\n#+ $*. #\n#     $#\n########")


@pytest.mark.parametrize("separator", ["", " ", "\t", "|"])
@pytest.mark.parametrize("symbols", [*SYMBOL_SETS, "0123456"])
def test_texts_determine_the_board(symbols, separator):
    view = TextView(symbols, separator)
    rows = view.draw(LEVEL.board).split("\n")
    chars = SYMBOL_SETS.get(symbols, symbols)
    order = [chars.index(char) for char in chars]  # wall, floor, target, box, box on target, player, both
    codes = dict(zip(chars, (0, 1, 2, 4, 3, 5, 6), strict=True))
    assert order == list(range(7))
    cells = [row.split(separator) if separator else list(row) for row in rows]
    assert np.array_equal([[codes[cell] for cell in row] for row in cells], grid(LEVEL.board, LEVEL.width))


def test_the_default_text_is_pinned():
    assert TextView().draw(LEVEL.board) == "\n".join(
        ["# # # # # # # #", "# S _ X √ O _ #", "# _ _ _ _ _ X #", "# # # # # # # #"]
    )


def test_xsb_text_is_a_level_again():
    assert parse_level(TextView("xsb", "").draw(LEVEL.board)) == LEVEL


def test_the_legend_names_every_symbol():
    assert TextView().legend == ("# wall, _ floor, O target, X box, √ box on target, P player, S player on target")


def observe(mode, **kwargs):
    env = creditflow.make("sokoban", level=LEVEL.xsb, obs_mode=mode, **kwargs)
    return env.reset()[0]


def test_planes_split_the_grid():
    codes, planes = observe("grid"), observe("planes")
    for plane, members in zip(planes, ([0], [2, 3, 6], [3, 4], [5, 6]), strict=True):
        assert np.array_equal(plane, np.isin(codes, members))


def test_smaller_levels_lie_in_the_corner_of_a_fixed_shape():
    codes = observe("grid", grid_shape=[7, 11])
    assert np.array_equal(codes[:4, :8], grid(LEVEL.board, LEVEL.width))
    assert not codes[4:].any()
    assert not codes[:, 8:].any()


def test_the_panel_fits_its_default_shape():
    env = creditflow.make("sokoban", panel="standard-v1", obs_mode="grid")
    assert env.observation_space.shape == (8, 8)


@pytest.mark.parametrize("size", [1, 7, 16, 28, 56])
def test_an_image_consists_of_whole_tiles(size):
    codes = np.random.default_rng(0).permutation(np.arange(28, dtype=np.uint8) % 7).reshape(4, 7)
    picture = Painter(size).paint(codes)
    assert picture.shape == (codes.shape[0] * size, codes.shape[1] * size, 3)
    assert picture.dtype == np.uint8
    tiles = picture.reshape(codes.shape[0], size, codes.shape[1], size, 3).swapaxes(1, 2)
    for code in range(7):
        same = tiles[codes == code]
        assert (same == same[0]).all()


@pytest.mark.parametrize("size", [4, 16, 28])
def test_every_kind_of_cell_looks_different(size):
    row = np.arange(7, dtype=np.uint8)[None, :]
    tiles = Painter(size).paint(row).reshape(size, 7, size, 3).swapaxes(0, 1).astype(int)
    for one in range(7):
        for other in range(one):
            assert np.abs(tiles[one] - tiles[other]).mean() > 4, (one, other)


def test_frames_and_rgb_observations_agree():
    env = creditflow.make("sokoban", level=LEVEL.xsb, obs_mode="rgb", render_mode="rgb_array")
    obs, _ = env.reset()
    frame = env.render()
    assert isinstance(frame, np.ndarray)
    assert np.array_equal(obs, frame)
    assert obs.shape == (4 * 28, 8 * 28, 3)


def test_ansi_frames_are_the_text():
    env = creditflow.make("sokoban", level=LEVEL.xsb, render_mode="ansi")
    obs, _ = env.reset()
    assert env.render() == obs
