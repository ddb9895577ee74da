"""What ``write_jsonl`` accepts, ``read_jsonl`` returns unchanged: one line that cannot be read would lose a whole log."""

from __future__ import annotations

import io
from dataclasses import fields, replace
from typing import Any

import pytest

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.records.jsonl import read_jsonl, write_jsonl
from creditflow.wrappers.records.trajectory import Trajectory, Turn

TURN = Turn("s", "a", "t", 1.0)
EPISODE = Trajectory("i", "g", "k", (TURN,), True, 1.0, "success", "t")
ODD: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2**70, 0.5, -0.0, 1e400, float("nan"), "", "text", "\ud800", b"bytes", (), ("x",), (1,), [], {}, {"n": 1.0},
    {"n": "x"}, {1: 1.0}, {"n": float("inf")}, object(),
)  # fmt: skip


@pytest.mark.parametrize("name", [f"{kind.__name__}.{f.name}" for kind in (Turn, Trajectory) for f in fields(kind)])
def test_a_field_of_any_value_is_refused_or_read_unchanged(name: str) -> None:
    kind, field = name.split(".")
    for value in ODD:
        try:
            if kind == "Turn":
                episode = replace(EPISODE, turns=(replace(TURN, **{field: value}),))
            else:
                episode = replace(EPISODE, **{field: value})
            stream = io.StringIO()
            write_jsonl(stream, [episode])
        except (TrajectoryError, TypeError, AttributeError):
            continue
        stream.seek(0)
        assert list(read_jsonl(stream)) == [episode], (name, value)
