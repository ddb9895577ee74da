"""Rows that cannot be read are counted by reason, damaged files are errors with their place, and neither takes memory or time."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from helpers.foreign_logs import SAMPLES, as_lines, sample
from helpers.hostile_files import refusals

from creditflow.envs.errors import DataError
from creditflow.train.adapters.logs.episodes import LONGEST, ImportSettings
from creditflow.train.adapters.logs.reading import SOURCES, read_log
from creditflow.train.adapters.logs.rows import LONGEST_EXAMPLE, read_rows
from creditflow.wrappers.records.jsonl import read_log as read_own
from creditflow.wrappers.records.jsonl import write_jsonl


def write(tmp_path, data, name="log.jsonl"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


BAD_LINES = {
    "[1, 2]": "the row is no JSON object",
    "{": "not JSON",
    '{"a": 1, "a": 2}': "not JSON",
    "[" * 200: "not JSON",
    '{"a":' * 80 + "1" + "}" * 80: "not JSON",
    "9" * 200: "not JSON",
    "null": "the row is no JSON object",
    "{}": "",
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("line", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_bad_row_is_left_out_counted_with_its_line_or_with_strict_an_error(name, line, tmp_path):
    source, data = sample(name)
    first, rest = data.split(b"\n", 1)
    path = write(tmp_path, first + b"\n" + line.encode() + b"\n" + rest)
    report = read_log(source, path)
    assert report.rollouts == 4
    [(reason, count)] = report.tally.left_out.items()
    assert count == 1
    assert BAD_LINES[line] in reason
    assert report.tally.examples[reason].startswith(f"{path}: line 2: ")
    assert len(report.tally.examples[reason]) <= LONGEST_EXAMPLE
    assert reason in report.to_text()
    with pytest.raises(DataError, match="line 2: "):
        read_log(source, path, ImportSettings(strict=True))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_field_of_every_wrong_type_is_left_out_and_never_a_crash(name, tmp_path):
    """The rest of the file is read as before."""
    source, _ = sample(name)
    rows = SAMPLES[name]

    def places(value, path=()):
        if path:
            yield path
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield from places(item, (*path, key))

    for path in places(rows[0]):
        wrongs: tuple[Any, ...] = (None, 3, -1, 2.5, True, "\ud800x", [], {}, [[]], {"role": 1}, 10**400)
        for wrong in wrongs:
            row = json.loads(json.dumps(rows[0]))
            at = row
            for part in path[:-1]:
                at = at[part]
            at[path[-1]] = wrong
            try:
                report = read_log(source, write(tmp_path, as_lines([row, *rows[1:]])))
            except DataError as error:
                if path[-1] == "done" and isinstance(wrong, str):
                    assert "unknown ways to end" in str(
                        error
                    )  # on purpose: every rollout that ended so would be missing
                    continue
                raise AssertionError(f"{path} = {wrong!r} spoils the whole file: {error}") from error
            assert report.rollouts >= len({"verl-agent": (0, 0, 0)}.get(name, rows[1:])), (path, wrong)


def test_a_file_of_which_nothing_can_be_read_is_an_error_that_says_why(tmp_path):
    for source in SOURCES:
        path = write(tmp_path, b'{"unknown": 1}\n' * 3)
        with pytest.raises(DataError, match=r"no rollout could be read of 3 rows: 3 × .*line 1"):
            read_log(source, path)
        with pytest.raises(DataError, match=r"no rollout could be read"):
            read_log(source, write(tmp_path, b""))


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_read_of_a_damaged_file_can_be_written_and_read_again(name, tmp_path):
    source, data = sample(name)
    path, own = tmp_path / "theirs.jsonl", tmp_path / "log.jsonl"

    def read():
        log = read_log(source, path).log
        write_jsonl(own, log)
        assert read_own(own) == log

    assert refusals(path, data, read, 60, seed=23)


PACKED_MEGABYTE = gzip.compress(b"a" * 2**20)  # a gzip file may be a sequence of them
BOMB = gzip.compress(b'{"a": "') + 300 * PACKED_MEGABYTE + gzip.compress(b'"}')


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"a": "\xff"}\n', "not UTF-8"),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n')[:-9], "damaged or truncated gzip"),
        ("a.jsonl.gz", BOMB, "times its size|longer than|characters"),
        ("a.jsonl.gz", b"no gzip", "damaged or truncated gzip"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.json", b'[{"a": 1}', "not JSON"),
        ("a.parquet", b"PAR1 and nothing", "Parquet|pyarrow is not installed"),
    ],
    ids=["bytes", "cut gzip", "gzip bomb", "no gzip", "deep", "cut json", "parquet"],
)
def test_a_damaged_file_is_one_error_with_its_name(name, data, message, tmp_path):
    path = write(tmp_path, data, name)
    with pytest.raises((DataError, ImportError), match=message) as raised:
        read_log("verl", path)
    assert len(str(raised.value)) < 1000


def test_a_conversation_of_too_many_messages_is_left_out(tmp_path):
    row = json.loads(json.dumps(SAMPLES["openenv"][0]))
    row["messages"] = [{"role": "assistant"}] * (LONGEST + 1)
    roles = {**SAMPLES["verl"][0], "output": "user\nassistant\n" * (LONGEST + 1)}
    for source, one in (("openenv", row), ("verl", roles)):
        report = read_log(source, write(tmp_path, as_lines([one, *SAMPLES[source][1:]])))
        assert report.rollouts == 3


def test_lists_lines_and_tables_of_wandb_are_the_same_rows(tmp_path):
    rows = SAMPLES["trl"]
    columns = list(rows[0])
    table = {"columns": columns, "data": [[row[name] for name in columns] for row in rows], "column_types": {}}
    forms = {
        "lines.jsonl": as_lines(rows), "blank.jsonl": b"\n" + as_lines(rows).replace(b"\n", b"\n\n"),
        "list.json": json.dumps(rows, indent=1).encode(), "table.json": json.dumps(table).encode(),
        "packed.jsonl.gz": gzip.compress(as_lines(rows)),
    }  # fmt: skip
    for name, data in forms.items():
        assert [row for _, row in read_rows(write(tmp_path, data, name))] == rows, name
    table = {**table, "data": [*map(list, (row.values() for row in rows)), [1]]}
    path = write(tmp_path, json.dumps(table).encode(), "table.json")
    assert read_log("trl", path).tally.left_out == {"the row has not one cell for each column": 1}
