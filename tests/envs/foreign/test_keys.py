"""State keys from content: equal exactly when the content is, the same in every process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from creditflow.envs.errors import ConfigError
from creditflow.envs.foreign.keys import MAX_DEPTH, Rounded, content_key

SOURCE = Path(__file__).resolve().parents[3] / "src"
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
ARRAYS = hnp.arrays(
    hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | hnp.boolean_dtypes() | hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.array_shapes(min_dims=0, max_dims=3, max_side=3),
)  # fmt: skip
CONTENT = st.recursive(
    SCALARS | ARRAYS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def canonical(value):
    """What the documentation calls the content, in plain Python: a second implementation to compare with."""
    if isinstance(value, np.ndarray):
        return (
            "array",
            value.dtype.kind == "b",
            value.shape,
            tuple(canonical(item) for item in value.ravel().tolist()),
        )
    if isinstance(value, dict):
        return ("mapping", frozenset((canonical(key), canonical(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("tuple", tuple(canonical(item) for item in value))
    return ("number" if type(value) in (int, float) else type(value).__name__, "nan" if value != value else value)


@given(CONTENT, CONTENT)
def test_keys_are_equal_exactly_when_the_content_is(a, b):
    assert (content_key(a) == content_key(b)) == (canonical(a) == canonical(b))
    assert content_key(a) == content_key(a)


@given(CONTENT)
def test_keys_are_printable_and_short(value):
    key = content_key(value)
    assert 0 < len(key) <= 64
    assert key.isprintable()


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_a_mapping_does_not_matter(data):
    assert content_key(data) == content_key(dict(reversed(data.items())))


@given(ARRAYS)
def test_arrays_differ_by_shape_but_not_by_dtype_or_layout_in_memory(array):
    assert content_key(np.array(array, order="F")) == content_key(array)
    assert content_key(array.astype(array.dtype.newbyteorder(">"))) == content_key(array)
    assert content_key(array.astype(object)) == content_key(array)
    assert content_key(array[np.newaxis]) != content_key(array)
    if array.dtype.kind == "f" and array.itemsize < 8:
        assert content_key(array.astype(np.float64)) == content_key(array)
    if array.dtype.kind == "i":
        assert content_key(array.astype(np.int64)) == content_key(array)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0), (2, 2.0), (2, np.float32(2)), (np.zeros(2), -np.zeros(2)), (np.array([0, 1], np.int32), np.array([0.0, 1.0])),
        (np.array([0.5], np.float32), np.array([0.5])), (np.array([np.nan, 1.5]), np.array([-np.nan, 1.5])),
        (np.array(["a"]), np.array(["a"], "U9")), (np.array([1, 2], object), np.array([1, 2])),
        (np.array([[1, 2], [3]], object), np.array([[1, 2], [3]], object)),
        (np.ma.masked_array([1, 2], [False, False]), np.array([1, 2])),
        (np.ma.masked_array([1, 2], [False, True]), np.ma.masked_array([1, 9], [False, True])),
    ],
)  # fmt: skip
def test_equal_content_in_another_form_has_one_key(one, other):
    assert content_key(one) == content_key(other)
    assert content_key({"x": [one]}) == content_key({"x": [other]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.5, 0.25), (1, True), (np.array([1, 0]), np.array([True, False])), ([1, 0], "[1, 0]"), (np.array([1, 0]), [1, 0]),
        (np.ma.masked_array([1, 2], [False, True]), np.array([1, 2])), (np.ma.masked_array([1, 0], [False, True]), np.array([1, 0])),
        (np.float32(0.1), 0.1), (np.array([2**63], np.uint64), np.array([2**63 - 1])), (float("inf"), float("-inf")),
        (np.array([1, True], object), np.array([1, 1], object)), (np.array(["1"]), np.array([1])),
    ],
)  # fmt: skip
def test_different_content_has_different_keys(one, other):
    assert content_key(one) != content_key(other)


def test_a_scalar_of_numpy_is_its_number_and_never_a_truth_value():
    assert content_key(np.int32(3)) == content_key(np.uint8(3)) == content_key(3) == "int:3"
    assert len({content_key(value) for value in (1, True, "1", b"1", np.array(1), [1], {1: 1}, None)}) == 8


def test_a_text_that_looks_like_a_key_is_no_other_key():
    assert content_key(content_key([1, 2])) != content_key([1, 2])
    assert content_key("x" * 1000) != content_key(content_key("x" * 1000))


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"map": np.zeros(3, np.complex64)}, r"the state\['map'\] is an array of complex64"),
        ({"agent": [1, np.array([object()])]}, r"the state\['agent'\]\[1\]\[0\] is object"),
        (np.array(["2020"], "M8[Y]"), "an array of datetime64"),
        (object(), "object"),
        (1j, "1j"),
        ({(1j,): 2}, r"a key of the state\[0\] is complex"),
    ],
)
def test_what_has_no_content_to_compare_is_refused_by_its_place(value, named):
    with pytest.raises(ConfigError, match=named) as error:
        content_key(value)
    assert "state_key" in str(error.value)


def test_rounding_keeps_arrays_arrays_and_numbers_numbers():
    key = Rounded(1)
    for value in (np.array(0.26), np.array([0.26]), np.zeros((2, 3))):
        assert isinstance(key(value, {}), np.ndarray)
        assert key(value, {}).shape == value.shape
    assert [type(key(value, {})) for value in (0.26, np.float32(0.26))] == [int, int]


def test_content_that_contains_itself_is_refused():
    value: list = []
    value.append(value)
    with pytest.raises(ConfigError, match=f"deeper than {MAX_DEPTH}"):
        content_key(value)
    with pytest.raises(ConfigError, match=f"deeper than {MAX_DEPTH}"):
        Rounded(1)(value, {})


def test_keys_do_not_depend_on_the_process():
    code = "from creditflow.envs.foreign.keys import content_key; print(content_key({'b': {'x', 'y', 'z'}, 'a': [1, b'2']}))"
    keys = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": seed}).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip
    assert keys == {content_key({"b": {"x", "y", "z"}, "a": [1, b"2"]}) + "\n"}


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_rounding_gives_integers_in_units_of_the_last_decimal(number, decimals):
    key = Rounded(decimals)
    units = key({"x": [number, np.float64(number)], "y": 3}, {})
    assert units == {"x": (units["x"][0], units["x"][0]), "y": 3}
    assert abs(units["x"][0] - number * 10**decimals) <= 0.5
    array = key(np.array([number]), {})
    assert array.dtype == np.int64
    assert array[0] == units["x"][0]
    assert content_key(units)


def test_rounding_merges_both_zeros_and_refuses_what_is_no_number():
    key = Rounded(2)
    assert content_key(key(-0.001, {})) == content_key(key(0.001, {})) == "int:0"
    for value in (float("nan"), float("inf"), 1e300, 1e308, np.array([np.nan])):
        with pytest.raises(ConfigError, match="not finite, or too large"):
            key(value, {})
    wrong: list[Any] = [-1, 13, 2.0, True, "2"]
    for decimals in wrong:
        with pytest.raises(ConfigError, match="from 0 to 12"):
            Rounded(decimals)
