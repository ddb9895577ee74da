"""Errors of readers are ours and name the file and position: misplaced tags, long runs, scalar values."""

from __future__ import annotations

import gzip
from itertools import product
from pathlib import Path

import pytest

from creditflow.envs.errors import ConfigError, CreditflowError, DataError
from creditflow.envs.reading.failures import naming
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.envs.reading.limits import MAX_BLANK_LINES
from creditflow.envs.reading.yaml_text import parse_yaml
from creditflow.envs.webshop.catalogue.records import stream_records

TAGS = (
    "null",
    "bool",
    "int",
    "float",
    "str",
    "seq",
    "map",
    "set",
    "omap",
    "pairs",
    "binary",
    "timestamp",
    "merge",
    "value",
)
NODES = ("3", "x", "''", "yes", "1.5", "9" * 5000, "[1]", "{a: 1}", "[]", "{}", "-", "0x", "1:2", ".", "_", "+")


@pytest.mark.parametrize("tag", TAGS)
def test_any_yaml_tag_is_parsed_or_rejected_with_its_position(tag: str) -> None:
    for node, form in product(NODES, ("{}", "a: {}", "[{}]", "{}: 1")):
        try:
            parse_yaml(form.format(f"!!{tag} {node}"), where="settings.yaml")
        except DataError as error:
            assert str(error).startswith("settings.yaml: ")


def test_a_compressed_file_of_blank_lines_is_rejected_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b"1\n" + b"\n" * (MAX_BLANK_LINES + 1), 1))
    with pytest.raises(DataError, match=rf"log.jsonl.gz: line {MAX_BLANK_LINES + 2}: more than 1,000,000 blank"):
        list(read_json_lines(path))


def test_an_integer_of_too_many_digits_in_a_stream_of_records_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "items.json"
    path.write_text(f'[{{"a": {"9" * 5000}}}]')
    with pytest.raises(DataError, match=r"items\.json: record 0"):
        list(stream_records(path))


@pytest.mark.parametrize("kind", [DataError, ConfigError])
def test_a_file_is_prepended_to_an_error_once(kind: type[CreditflowError]) -> None:
    with pytest.raises(kind, match=r"^file: line 3: wrong$"), naming("file"), naming("file: line 3"):
        raise kind("wrong")
    with pytest.raises(kind, match=r"^file: wrong$"), naming("file"), naming("file"):
        raise kind("wrong")
