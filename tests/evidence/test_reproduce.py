"""Stored results come out of today's code: a sample of the files that take seconds."""

from __future__ import annotations

import pytest
from evidence.reproduce import FILES, TOLERANCE, differences, numbers_in, sampled


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".jsonl")])
def test_a_sample_of_stored_results_is_reproduced(name):
    for what, stored, computed in sampled(name, count=2):
        assert numbers_in(stored) > 0
        assert [d for d in differences(stored, computed, what) if d.size > TOLERANCE] == []


def test_a_difference_is_found_wherever_it_is():
    stored = {"a": [1.0, {"b": 2}], "c": None}
    assert differences(stored, stored) == []
    assert [(d.where, d.size) for d in differences(stored, {"a": [1.0, {"b": 2.5}]}, "x")] == [("x/a/b", 0.5)]
    assert differences([1.0], [1.0, 2.0])[0].size == float("inf")
