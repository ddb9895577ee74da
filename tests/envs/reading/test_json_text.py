"""Untrusted JSON: valid files are parsed, others are rejected with their position and the limit."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import (
    RepeatedKeyError,
    parse_json,
    read_json,
    read_json_lines,
    read_json_rows,
    unique_keys,
)
from creditflow.envs.reading.limits import JSON, Limits

SCALARS = st.none() | st.booleans() | st.integers(-(2**128), 2**128) | st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.text(st.characters(), max_size=4)  # lone surrogates too
VALUES = st.recursive(
    SCALARS | KEYS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


@given(VALUES, st.sampled_from([None, 1]))
def test_values_round_trip_through_json(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert parse_json(text, where="here") == value
    assert parse_json(text.encode(), where="here") == value


def objects(value: Any) -> list[dict[str, Any]]:
    below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [
        *([value] if isinstance(value, dict) and value else []),
        *(found for one in below for found in objects(one)),
    ]


class Written(dict[str, Any]):
    """An object that json.dumps writes with one key twice."""

    def __init__(self, found: dict[str, Any], key: str) -> None:
        super().__init__(found)
        self.key = key

    def items(self) -> Any:
        return [*super().items(), (self.key, None)]


def repeated(value: Any, target: dict[str, Any], key: str) -> Any:
    if isinstance(value, list):
        return [repeated(one, target, key) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: repeated(one, target, key) for name, one in value.items()}
    return Written(found, key) if value is target else found


@given(VALUES.filter(objects), st.data())
def test_a_repeated_key_is_rejected_by_name(value: Any, data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(objects(value)))
    key = data.draw(st.sampled_from(sorted(target)))
    text = json.dumps(repeated(value, target, key), indent=1)
    with pytest.raises(DataError, match=r"^here: not JSON: the key .* occurs twice in one object") as caught:
        parse_json(text, where="here")
    assert f"the key {key!r:.80} " in str(caught.value)


class CountedKey(str):
    """A key that counts how often keys are compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@given(st.integers(1, 2_000), st.data())
def test_finding_a_repeated_key_compares_each_key_a_few_times(count: int, data: st.DataObject) -> None:
    """A hostile object with many keys must not take quadratic time."""
    pairs: list[tuple[str, Any]] = [(CountedKey(f"key {number}"), 0) for number in range(count)]
    again = data.draw(st.integers(0, count - 1))
    pairs.append((CountedKey(f"key {again}"), 1))
    CountedKey.compared = 0
    with pytest.raises(RepeatedKeyError, match=f"'key {again}' occurs twice"):
        unique_keys(pairs)
    assert CountedKey.compared <= 4 * len(pairs)


def test_equal_keys_in_different_spellings_are_equal() -> None:
    with pytest.raises(DataError, match=r"the key 'ab' occurs twice in one object"):
        parse_json('{"a\\u0062": 1,\n"ab" : 2}', where="here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1] 2", "not JSON"),
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("[1e999]", "a non-finite number"),
        ("1" * 101, "an integer of more than 100 digits"),
        ("-" + "1" * 101, "an integer of more than 100 digits"),
        ("1" * 5000, "limit"),
        ("[" * 66 + "]" * 66, "nested deeper than 64 levels"),
        ('{"a":' * 66 + "1" + "}" * 66, "nested deeper than 64 levels"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("\ufeff1", "not JSON"),
    ],
)
def test_invalid_texts_are_rejected_with_their_position(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        parse_json(text, where="file: line 7")
    assert str(caught.value).startswith("file: line 7: ")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("limits", [JSON, Limits(depth=3, digits=2)])
def test_values_at_the_limits_are_accepted_and_beyond_them_rejected(limits: Limits) -> None:
    deep = "[" * limits.depth + "1" + "]" * limits.depth
    parse_json(deep, where="here", limits=limits)
    with pytest.raises(DataError, match=f"deeper than {limits.depth} levels"):
        parse_json(f"[{deep}]", where="here", limits=limits)
    parse_json("9" * limits.digits, where="here", limits=limits)
    with pytest.raises(DataError, match=f"more than {limits.digits} digits"):
        parse_json("1" + "0" * limits.digits, where="here", limits=limits)


def test_long_texts_and_invalid_bytes_are_rejected() -> None:
    with pytest.raises(DataError, match="longer than 10 characters"):
        parse_json('"0123456789"', where="here", limits=Limits(characters=10))
    with pytest.raises(DataError, match=r"not UTF-8 text .* at byte 1"):
        parse_json(b'"\xff"', where="here")


def test_errors_in_files_name_the_line_or_the_row(tmp_path: Any) -> None:
    path = tmp_path / "rows"
    path.write_text('{"a": 1}\n\n{"a": 1, "a": 2}\n')
    for read in (lambda: list(read_json_lines(path)), lambda: read_json_rows(path)):
        with pytest.raises(DataError, match=r"rows: line 3: .*'a' occurs twice"):
            read()
    path.write_text('[1,\n 2, {"a": 1,\n "a": 2}]')
    with pytest.raises(DataError, match=r"rows: .*'a' occurs twice in one object"):
        read_json_rows(path)
    path.write_text('["x\u2028y", 2]')
    assert read_json_rows(path) == [(f"{path}: row 1", "x\u2028y"), (f"{path}: row 2", 2)]
    path.write_text('"x\u2028y"\n2')  # only a newline ends a line
    assert (
        read_json_rows(path) == list(read_json_lines(path)) == [(f"{path}: line 1", "x\u2028y"), (f"{path}: line 2", 2)]
    )
    with pytest.raises(DataError, match="cannot be read"):
        read_json(tmp_path)
