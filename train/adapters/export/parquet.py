"""Logs as folders of Parquet files, in the layout that the Hugging Face Hub and ``datasets`` read, and back.

A trajectory is one row: the fields of a log's line, with maps as lists of named values. A row is made from the line of a log and
read back into one, so the log's own reader checks whatever a file contains.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from itertools import islice
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError, MissingExtraError, TrajectoryError, short_repr
from creditflow.envs.files.atomic import atomic_path
from creditflow.train.adapters.logs.rows import RowError, read_rows
from creditflow.wrappers.records.jsonl import Log, Record, read_records
from creditflow.wrappers.records.jsonl_lines import FORMAT_VERSION, decode_line, encode_line
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["DATA", "EXACT", "read_parquet", "row_of", "schema", "trajectory_of", "write_parquet"]


EXACT: Final = "exact_line"  # the line itself, where a text is no Unicode
_MAPS: Final = ("values", "provenance")


def schema() -> Any:
    """The Arrow schema of a row.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import pyarrow as pa

    numbers = pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64())]))
    kinds = {
        "str": pa.string(), "StopReason": pa.string(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(),
        "tuple[str, ...]": pa.list_(pa.string()), "Mapping[str, float]": numbers,
        "Mapping[str, str]": pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())])),
    }  # fmt: skip
    tokens = pa.struct(
        [
            ("ids", pa.list_(pa.int32())), ("mask", pa.list_(pa.int8())), ("logprobs", pa.list_(pa.float32())),
            ("turn_offsets", pa.list_(pa.int32())), ("prompts", pa.list_(pa.list_(pa.int32()))), ("policy_version", pa.string()),
            ("values", pa.list_(pa.struct([("name", pa.string()), ("value", pa.list_(pa.float32()))]))),
        ]
    )  # fmt: skip
    turn = pa.struct([(f.name, kinds[str(f.type)]) for f in fields(Turn)])
    nested = {"turns": pa.list_(turn), "tokens": tokens}
    columns = [(f.name, nested.get(f.name) or kinds[str(f.type)]) for f in fields(Trajectory)]
    return pa.schema([("format_version", pa.int8()), *columns, ("task", pa.string()), (EXACT, pa.string())])


def row_of(trajectory: Trajectory, task: Mapping[str, Any] | None) -> dict[str, Any]:
    """The row of a trajectory, with its task's payload as JSON if given.

    Raises:
        TrajectoryError: the trajectory cannot be written.
    """
    line = encode_line(trajectory, task)
    data = json.loads(line)
    exact = None
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # lone surrogates, which models write and Arrow's texts cannot hold
        exact, data = line, json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))
    payload = data.pop("task", None)
    row = _filled(Trajectory, data)
    row["turns"] = [_listed(_filled(Turn, turn)) for turn in data["turns"]]
    if "tokens" in data:
        row["tokens"] = _listed({"prompts": [], "policy_version": "", "values": {}, **data["tokens"]})
    return {
        **_listed(row), "format_version": FORMAT_VERSION, "task": None if payload is None else json.dumps(payload), EXACT: exact
    }  # fmt: skip


def trajectory_of(row: Mapping[str, Any]) -> tuple[Trajectory, Mapping[str, Any] | None]:
    """The trajectory of a row, and its task's payload if the row has one.

    Raises:
        TrajectoryError: the row is not one that ``row_of`` makes.
    """
    if isinstance(row.get(EXACT), str):
        return decode_line(row[EXACT], ())
    data = {name: value for name, value in _mapped(row).items() if name not in (EXACT, "task")}
    turns, tokens, task = data.get("turns"), data.get("tokens"), row.get("task")
    if isinstance(turns, list):
        data["turns"] = [_mapped(turn) if isinstance(turn, Mapping) else turn for turn in turns]
    data["tokens"] = _mapped(tokens) if isinstance(tokens, Mapping) else tokens
    if task is not None:
        try:
            data["task"] = json.loads(task)
        except (TypeError, ValueError, RecursionError) as error:
            raise TrajectoryError(f"the column task must be JSON, got {short_repr(task)}") from error
    try:
        line = json.dumps(data, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TrajectoryError(f"the row has no plain values: {error}") from error
    return decode_line(line, ())


def _filled(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record, with defaults for those that a line leaves out."""
    row = {}
    for f in fields(kind):
        default = f.default if f.default_factory is MISSING else f.default_factory()
        row[f.name] = data.get(f.name, list(default) if isinstance(default, tuple) else default)
    return row


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    for name in _MAPS:
        if name in row:
            row[name] = [{"name": key, "value": value} for key, value in row[name].items()]
    return row


def _mapped(row: Mapping[str, Any]) -> dict[str, Any]:
    mapped = dict(row)
    for name in _MAPS:
        entries = mapped.get(name)
        if isinstance(entries, list):
            if not all(isinstance(entry, Mapping) and isinstance(entry.get("name"), str) for entry in entries):
                raise TrajectoryError(f"the column {name} must have named values, got {short_repr(entries)}")
            mapped[name] = {entry["name"]: entry.get("value") for entry in entries}
            if len(mapped[name]) != len(entries):
                raise TrajectoryError(f"the column {name} has a name twice: {short_repr(entries)}")
    return mapped


DATA: Final = "data/train-00000-of-00001.parquet"
ROWS: Final = 64  # trajectories written at a time


def write_parquet(folder: Path, log: Log) -> Path:
    """Write a log as one file, a row for each trajectory; return its path.

    Raises:
        MissingExtraError: pyarrow is not installed.
        TrajectoryError: a trajectory cannot be written.
    """
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter
    except ImportError as error:
        raise MissingExtraError("pyarrow", "export") from error
    path = folder / DATA
    columns = schema()
    rows = (row_of(trajectory, task) for trajectory, task in log.records())
    with atomic_path(path) as temporary, ParquetWriter(temporary, columns, compression="zstd") as writer:
        while batch := list(islice(rows, ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, columns))
    return path


def read_parquet(path: str | Path) -> Log:
    """Read the log of an exported folder, or of one of its files.

    Raises:
        DataError: there is no such file, it is damaged, or a row is no trajectory; names file and row.
        MissingExtraError: pyarrow is not installed.
    """
    source = Path(path)
    files = sorted(source.glob("data/*.parquet")) if source.is_dir() else [source]
    if not files:
        raise DataError(f"{path}: no data/*.parquet in this folder; is it one that creditflow exported?")
    log = read_records(_records(files))
    if not log.groups:
        raise DataError(f"{path} contains no trajectories")
    return log


def _records(files: Iterable[Path]) -> Iterator[Record]:
    for file in files:
        for where, row in read_rows(file):
            try:
                if isinstance(row, RowError):
                    raise TrajectoryError(str(row))
                yield *trajectory_of(row), where
            except TrajectoryError as error:
                raise TrajectoryError(f"{where}: {error}") from error
