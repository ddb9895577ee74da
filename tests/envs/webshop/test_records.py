"""Streaming of large and damaged files."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.envs.webshop.catalogue import records
from creditflow.envs.webshop.catalogue.products import LoadReport, read_products
from creditflow.envs.webshop.catalogue.records import stream_items, stream_records

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
GOOD = {"asin": "A1", "name": "n", "full_description": "d", "small_description": ["b"], "pricing": "$1.0", "category": "c",
        "query": "Q ", "product_category": "x › y", "customization_options": {"Color": [{"value": " Red/Blue "}], "z": None}}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "CHUNK", 7)
        yield


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 1]))
def test_streamed_lists_equal_parsed_ones(tmp_path_factory, values, indent):
    path = tmp_path_factory.getbasetemp() / "list.json"
    path.write_text(json.dumps(values, indent=indent), encoding="utf-8")
    assert list(stream_records(path)) == values


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=5))
def test_streamed_objects_equal_parsed_ones(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "object.json.gz"
    path.write_bytes(gzip.compress(json.dumps(values).encode()))
    assert dict(stream_items(path)) == values


def test_a_file_truncated_anywhere_is_reported_as_truncated(tmp_path):
    text, path = json.dumps([GOOD, GOOD]), tmp_path / "cut.json"
    for end in range(1, len(text)):
        path.write_text(text[:end])
        with pytest.raises(DataError, match="truncated"):
            list(stream_records(path))


def test_a_gzip_file_truncated_anywhere_is_an_error(tmp_path):
    data, path = gzip.compress(json.dumps([GOOD] * 3).encode()), tmp_path / "cut.json.gz"
    for end in range(2, len(data), 5):
        path.write_bytes(data[:end])
        with pytest.raises(DataError, match=r"truncated|decompressed"):
            list(stream_records(path))


@pytest.mark.parametrize("text", ["{}", "null", '"text"', "[1 2]", "[1,]", "<html>Quota exceeded</html>", "[" * 50_000])
def test_other_content_is_an_error(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(DataError):
        list(stream_records(path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.json"):
        list(stream_records(tmp_path / "nowhere.json"))


BAD = {
    "a string": "text",
    "no asin": {**GOOD, "asin": None},
    "asin nan": {**GOOD, "asin": "nan"},
    "long asin": {**GOOD, "asin": "B" * 11},
    "asin number": {**GOOD, "asin": 5},
    "title number": {**GOOD, "name": 5},
    "price word": {**GOOD, "pricing": "$free"},
    "price without dollars": {**GOOD, "pricing": "12.99"},
    "price dots": {**GOOD, "pricing": "$1.2.3"},
    "bullets number": {**GOOD, "small_description": 3},
    "bullet number": {**GOOD, "small_description": [3]},
    "options list": {**GOOD, "customization_options": ["red"]},
    "option without value": {**GOOD, "customization_options": {"color": [{"image": "x"}]}},
    "option text": {**GOOD, "customization_options": {"color": "red"}},
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_records_are_skipped_with_count_and_reason(name):
    report = LoadReport()
    products = list(read_products([BAD[name], GOOD, GOOD], {}, report))
    assert [p.asin for p in products] == ["A1"]
    assert report.products == 1
    assert sum(report.skipped.values()) == 2  # the malformed one, and the repeated id
    assert all(report.examples[reason] for reason in report.skipped)


@pytest.mark.parametrize("name", sorted(set(BAD) - {"asin nan", "long asin"}))
def test_strict_reading_names_the_number_of_a_malformed_record(name):
    with pytest.raises(DataError, match="record 1"):
        list(read_products([{**GOOD, "asin": "A0"}, BAD[name]], {}, LoadReport(), strict=True))


@pytest.mark.parametrize(
    "entry", [5, {"attributes": "x"}, {"attributes": [1]}, {"attributes": [], "instruction": "buy"}]
)
def test_malformed_attribute_entries_are_skipped_too(entry):
    report = LoadReport()
    assert list(read_products([GOOD], {"A1": entry}, report)) == []
    assert sum(report.skipped.values()) == 1


def test_a_product_is_parsed_as_in_the_original():
    (product,) = read_products([GOOD], {}, LoadReport())
    assert product.options == (("color", ("red | blue",)),)
    assert (product.query, product.price_tag, product.attributes) == ("q", "$1.0", ("DUMMY_ATTR",))
    assert product.document() == "n d b color: red | blue"
