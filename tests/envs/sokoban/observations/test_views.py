"""Texts, grids, planes and images show the same board, and all of it."""

from __future__ import annotations

import numpy as np
import pytest

import creditflow
from creditflow.envs.sokoban import parse_level
from creditflow.envs.sokoban.observations.text import SYMBOL_SETS, TextView
from creditflow.envs.sokoban.rules import grid

# every kind of cell once
LEVEL = parse_level("########\n#+ $*. #\n#     $#\n########")


@pytest.mark.parametrize("separator", ["", " ", "\t", "|"])
@pytest.mark.parametrize("symbols", SYMBOL_SETS)
def test_texts_determine_the_board(symbols, separator):
    view = TextView(symbols, separator)
    rows = view.draw(LEVEL.board).split("\n")
    chars = SYMBOL_SETS[symbols]
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


def test_a_dict_observation_has_the_chosen_keys_in_their_order_and_the_single_observations():
    keys = ["rgb", "planes", "text", "grid"]
    for chosen in (keys, ["grid", "text"], ["rgb"]):
        observed = observe("dict", obs_keys=chosen)
        assert list(observed) == chosen
        for key in chosen:
            assert np.array_equal(observed[key], observe(key))
    assert list(observe("dict")) == ["text", "grid", "planes", "rgb"]
