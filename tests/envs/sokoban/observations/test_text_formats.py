"""Text variants: each of them determines the state."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban import SokobanEnv, parse_level
from creditflow.envs.sokoban.observations.text import SYMBOL_SETS, TEXT_FORMATS, TextView
from creditflow.envs.sokoban.rules import grid

LEVEL = parse_level("########\n#+ $*. #\n#     $#\n########")


def cells(text):
    return [(int(row), int(column)) for row, column in re.findall(r"\((\d+), (\d+)\)", text)]


def parsed(text):
    """Read a text of coordinates back into codes, by its own words."""
    fields = dict(line.split(": ", 1) for line in text.split("\n"))
    rows, columns = map(int, re.findall(r"(\d+) rows and (\d+) columns", fields["open cells"])[0])
    codes = np.zeros((rows, columns), np.uint8)
    for cell in cells(fields["open cells"]):
        codes[cell] = 1
    for cell in cells(fields["targets"]):
        codes[cell] = 2
    for cell in cells(fields["boxes"]):
        codes[cell] = 3 if codes[cell] == 2 else 4
    (cell,) = cells(fields["player"])
    codes[cell] = 6 if codes[cell] == 2 else 5
    return codes


def played(seed, **kwargs):
    """An environment after random moves, and its grid."""
    env = SokobanEnv(panel="standard-v1:train", **kwargs)
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(10):
        text, _, terminated, _, _ = env.step(str(rng.choice(["up", "down", "left", "right"])))
        if terminated:
            break
    return text, grid(env._board, env._width)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_coordinates_determine_the_state(seed):
    text, codes = played(seed, text_format="coordinates")
    assert np.array_equal(parsed(text), codes)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_grid_and_coordinates_agree(seed):
    text, codes = played(seed, text_format="grid_coordinates", symbols="xsb", separator="")
    drawn, _, listed = text.partition("\n\n")
    order = (0, 1, 2, 4, 3, 5, 6)  # codes of the symbols
    read = [[order[SYMBOL_SETS["xsb"].index(char)] for char in row] for row in drawn.split("\n")]
    assert np.array_equal(read, codes)
    fields = dict(line.split(": ", 1) for line in listed.split("\n"))
    assert cells(fields["player"]) == list(zip(*map(np.ndarray.tolist, np.nonzero(codes >= 5)), strict=True))
    assert set(cells(fields["boxes"])) == set(
        zip(*map(np.ndarray.tolist, np.nonzero(np.isin(codes, [3, 4]))), strict=True)
    )
    assert set(cells(fields["targets"])) == set(
        zip(*map(np.ndarray.tolist, np.nonzero(np.isin(codes, [2, 3, 6]))), strict=True)
    )


def test_the_coordinates_are_pinned():
    assert TextView(text_format="coordinates").draw(LEVEL.board) == (
        "player: (1, 1)\n"
        "boxes: (1, 3), (1, 4), (2, 6)\n"
        "targets: (1, 1), (1, 4), (1, 5)\n"
        "open cells: (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6); "
        "all others of 4 rows and 8 columns are walls"
    )


def test_the_legend_explains_what_the_text_uses():
    legends = {name: TextView(text_format=name).legend for name in TEXT_FORMATS}
    assert "(row, column)" not in legends["grid"]
    assert "# wall" not in legends["coordinates"]
    assert legends["grid_coordinates"] == f"{legends['grid']}; {legends['coordinates']}"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [({"text_format": "coordinate"}, "did you mean 'coordinates'"), ({"text_format": None}, "text_format")],
)
def test_wrong_arguments_are_rejected_with_a_reason(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        SokobanEnv(**kwargs)
