"""Type checks of values: the value, or an error that begins with the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.envs.reading import checked

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = {"format", "steps"}


def snapshot(text: Any) -> dict[str, Any]:
    return checked.snapshot_fields(text, kind="Toy snapshot", form="toy/1", fields=FIELDS, limit=60)


@given(value=ANYTHING, low=st.integers(-5, 5), high=st.integers(-5, 2**60))
def test_an_integer_is_in_its_range_and_not_a_boolean(value: Any, low: int, high: int) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        assert checked.integer(value, "toy: n", low, high) == value
    else:
        with pytest.raises(DataError, match=f"^toy: n must be an integer from {low} to {high}, got "):
            checked.integer(value, "toy: n", low, high)


@given(value=ANYTHING, most=st.integers(0, 3))
def test_a_list_of_strings_has_only_strings_and_at_most_the_allowed_number(value: Any, most: int) -> None:
    if checked.is_string_list(value) and len(value) <= most:
        assert checked.texts(value, "toy: names", most) == tuple(value)
    else:
        with pytest.raises(DataError, match=r"^toy: names must be a (list of at most|string)"):
            checked.texts(value, "toy: names", most)


@given(value=ANYTHING)
def test_values_that_are_not_snapshots_are_errors_that_name_the_kind(value: Any) -> None:
    for text in (value, json.dumps(value)):
        with pytest.raises(DataError, match=r"^a Toy snapshot "):
            snapshot(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format":"toy/2","steps":1}', "has format 'toy/1'"),
        ('{"format":"toy/1"}', r"the fields \['format', 'steps'\]"),
        ('{"format":"toy/1","steps":1,"steps":2}', "occurs twice"),
        ('{"format":"toy/1","steps":NaN}', "NaN"),
        ("[" * 60, "must be JSON"),
        (" " * 61, "at most 60 characters, got 61 characters"),
    ],
)
def test_errors_of_snapshots_name_the_violation(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        snapshot(text)


def test_the_fields_of_a_snapshot_are_returned() -> None:
    assert snapshot('{"format":"toy/1","steps":3}')["steps"] == 3
