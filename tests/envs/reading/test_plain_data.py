"""Plain data: nan becomes None wherever it stands, and everything else is kept."""

from __future__ import annotations

import json
import math
from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.reading.plain_data import nan_as_none

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_infinity=False),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
)


@given(plain)
def test_the_result_is_json_and_only_nan_has_changed(data):
    text = json.dumps(nan_as_none(data), allow_nan=False)
    assert text == json.dumps(data).replace("NaN", "null") or "NaN" in json.dumps(data, allow_nan=True)
    if "NaN" not in json.dumps(data):
        assert nan_as_none(data) == data


def test_nan_is_replaced_at_every_depth():
    nested = MappingProxyType({"a": (1.0, math.nan), "b": {"c": [math.nan, "nan"]}})
    assert nan_as_none(nested) == {"a": [1.0, None], "b": {"c": [None, "nan"]}}
