"""Messages quote any value briefly, and never fail on it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import MAX_MESSAGE, ConfigError, CreditflowError, DataError, UnknownTaskError, short_repr

ROOMS = ("envs", "wrappers", "agents", "train")
ROOT = Path(__file__).parents[2]


def deep(levels: int) -> list[Any]:
    nest: list[Any] = []
    for _ in range(levels):
        nest = [nest]
    return nest


class Unwilling:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_any_value_is_shown_in_a_few_characters() -> None:
    hostile = (
        deep(100_000),
        10**5000,
        {"x": [10**5000]},
        "\ud800" * 10**6,
        b"\xff" * 10**6,
        Unwilling(),
        [Unwilling()],
    )
    assert all(0 < len(short_repr(value)) <= 60 for value in hostile)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists), st.integers(8, 200))
def test_a_short_value_is_shown_as_it_is_and_a_long_one_is_cut(value: Any, most: int) -> None:
    text = repr(value)
    assert short_repr(value, most) == (text if len(text) <= most else text[: most - 1] + "…")


@pytest.mark.parametrize("kind", [CreditflowError, ConfigError, DataError, UnknownTaskError])
def test_a_long_message_keeps_its_ends(kind: type[CreditflowError]) -> None:
    error = kind("start" + "x" * 10**6 + "end")
    assert len(str(error)) == MAX_MESSAGE
    assert str(error).startswith("start")
    assert str(error).endswith("end")
    assert str(kind("short")) == "short"


def test_messages_quote_what_came_by_this_function_alone() -> None:
    """``got {value!r}`` fails on deep nests and on integers of 5,000 digits, and repeats whole inputs."""
    raw = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr) and path != ROOT / "envs" / "check.py":
                    pairs = zip(node.values, node.values[1:], strict=False)
                    raw += [f"{path.relative_to(ROOT)}:{node.lineno}" for one, two in pairs if quotes(one, two)]
    assert not raw


def quotes(text: ast.expr, value: ast.expr) -> bool:
    before = text.value if isinstance(text, ast.Constant) else ""
    is_repr = isinstance(value, ast.FormattedValue) and value.conversion == ord("r")
    return is_repr and str(before).lower().endswith("got ")
