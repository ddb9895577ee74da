"""Parsing of action texts."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.webshop.actions import ShopAction, parse_action, searchable

ORIGINAL = re.compile(r"(.+)\[(.+)\]")


@given(st.text(st.sampled_from("ab[] \n\rAÉ"), max_size=14))
def test_actions_are_parsed_as_by_the_originals_pattern(text):
    found = ORIGINAL.match(text)
    expected = ShopAction(found.group(1), found.group(2).lower()) if found else None
    assert parse_action(text) == expected


@given(st.text(max_size=30))
def test_searchable_text_survives_as_an_argument(text):
    query = searchable(text)
    if query:
        assert parse_action(f"search[{query}]") == ShopAction("search", query.lower())


def test_megabytes_of_brackets_are_parsed_in_one_pass():
    for text in (
        "[" * 1_000_000,
        "]" * 1_000_000,
        "[]" * 500_000,
        "a[" * 500_000 + "b",
        "search[" + "x" * 1_000_000 + "]",
    ):
        parse_action(text)
