"""Reasons of invalid actions are those of the environment on its own, whatever holds the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.sokoban.vector.env import SokobanVectorEnv

LEVEL = "#####\n#@$.#\n#####"
DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


CASES = [
    (number, dtype) for dtype in DTYPES for number in (4, 7, 127, -1, -128) if number >= 0 or not dtype.startswith("u")
]


@pytest.mark.parametrize(("number", "dtype"), CASES)
def test_an_invalid_number_has_one_reason(number: int, dtype: str) -> None:
    alone = SokobanEnv(level=LEVEL, action_mode="discrete")
    alone.reset()
    reason = alone.step(number)[4]["invalid_reason"]
    assert reason == f"expected an integer from 0 to 3, got {number}"
    alone.reset()
    assert alone.step(np.dtype(dtype).type(number))[4]["invalid_reason"] == reason
    vector = SokobanVectorEnv(num_envs=2, level=LEVEL, action_mode="discrete")
    vector.reset()
    infos = vector.step(np.array([number, 0], dtype=dtype))[4]
    assert infos["invalid_reason"].tolist() == [reason, ""]


@pytest.mark.parametrize("text", ["jump", "", "x" * 100, "\ud800", "up up"])
def test_an_invalid_text_has_one_reason(text: str) -> None:
    alone = SokobanEnv(level=LEVEL)
    alone.reset()
    reason = alone.step(text)[4]["invalid_reason"]
    vector = SokobanVectorEnv(num_envs=2, level=LEVEL)
    for actions in ([text, "up"], np.array([text, "up"], dtype=object), np.array([text, "up"])):
        vector.reset()
        assert vector.step(actions)[4]["invalid_reason"].tolist() == [reason, ""]
