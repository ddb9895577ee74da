"""``KEY=VALUE``: one rule for all commands, JSON in which texts may go without quotes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.settings.overrides import apply_overrides, read_value

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=PLAIN, indent=st.sampled_from([None, 1]), escaped=st.booleans())
def test_whatever_json_writes_is_read_back(value: Any, indent: int | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    assert json.dumps(read_value(text, "key")) == json.dumps(value)


@given(text=st.text(alphabet='[]{}",:ab1 .e-\\ntrue', max_size=30))
def test_any_text_is_a_value_or_an_error_that_names_the_setting(text: str) -> None:
    try:
        value = read_value(text, "a.b")
    except ConfigError as error:
        assert str(error).startswith("a.b: ")
    else:
        json.dumps(value, allow_nan=False)


@given(word=st.text(alphabet="abcXYZ0-9_./#:@", min_size=1).filter(lambda w: w[0].isalpha()))
def test_a_word_is_itself_alone_in_a_list_and_in_a_section(word: str) -> None:
    expected = {"true": True, "false": False, "null": None}.get(word, word)
    assert read_value(word, "key") == expected
    assert read_value(f"[{word}, {word}]", "key") == [expected, expected]
    assert read_value(f"{{one: {word}}}", "key") == {"one": expected}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""), (" ", " "), ("1e-6", 1e-6), ("3", 3), ("-0.5", -0.5), ('"3"', "3"), ("true", True), ("True", "True"),
        ("yes", "yes"), ("null", None), ("~", "~"), ("NaN", "NaN"), ("-Infinity", "-Infinity"), ("007", "007"), ("a b", "a b"),
        ("hf:runs/x", "hf:runs/x"), ("2026-01-01", "2026-01-01"), ("[]", []), ("{}", {}), ("[a:b, c:d]", ["a:b", "c:d"]),
        ("[1, [x]]", [1, ["x"]]), ('{a: 1, "b c": {d: "]"}}', {"a": 1, "b c": {"d": "]"}}), ("a,b", "a,b"),
    ],
)  # fmt: skip
def test_the_rule(text: str, value: Any) -> None:
    got = read_value(text, "key")
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2", r"key: expected , or \]"),
        ("[1,]", "key: expected a value"),
        ("{a}", "key: expected KEY: VALUE"),
        ("{a: 1, a: 2}", "key: a key stands twice"),
        ("[1] 2", "key: more text follows"),
        ('"open', "key: a quoted text is not JSON"),
        ("1e400", "key: contains a non-finite number"),
        ("[" * 100_000, "key: nested deeper than 32 levels"),
    ],
)
def test_what_is_not_well_formed_is_rejected_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_value(text, "key")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["nothing"], "a setting is written KEY=VALUE"),
        (["=1"], "a setting is written KEY=VALUE"),
        (["a..b=1"], "a setting is written KEY=VALUE"),
        (["a =1"], "a setting is written KEY=VALUE"),
        (["a=1", "a=2"], "'a' is given twice"),
        (["seed.x=3"], "seed is a value, not a section"),
    ],
)
def test_wrong_settings_are_named(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        apply_overrides({"seed": 1}, overrides)


def test_overrides_change_a_copy() -> None:
    data = {"a": {"b": [1]}}
    changed = apply_overrides(data, ["a.b=[2]", "a.c.d=x", "lr=3e-7"])
    assert changed == {"a": {"b": [2], "c": {"d": "x"}}, "lr": 3e-7}
    assert data == {"a": {"b": [1]}}
