"""Rows of a file as plain objects with their positions: JSON Lines, a JSON list, a table logged by W&B, or Parquet.

A row that is no JSON object is the caller's to count; a file that is damaged as a whole is an error. Compressed text and
Parquet may not expand to more than the usual ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from creditflow.envs.errors import DataError, MissingExtraError, short_repr
from creditflow.envs.reading.json_text import parse_json, read_json_rows
from creditflow.envs.reading.limits import ALLOWANCE, MAX_LINE, MAX_RATIO, MAX_ROWS_FILE, Limits
from creditflow.envs.reading.plain_data import check_plain
from creditflow.envs.reading.streams import open_bytes, read_lines
from creditflow.train.adapters.logs.report import RowError, Tally

__all__ = ["Row", "Rows", "each_row", "read_rows"]

Row = dict[str, Any]
Rows = Iterable[tuple[str, Row | RowError]]
ResultT = TypeVar("ResultT")
_PARQUET: Final = b"PAR1"
_LINE: Final = Limits(characters=MAX_LINE)
_BATCH: Final = 16  # rows decoded at a time: a dictionary of texts may make every row of them large
_TABLE: Final = {"columns", "data"}


def read_rows(path: str | Path) -> Iterator[tuple[str, Row | RowError]]:
    """Yield the rows of a file, each with its position ("file: line 7"), or why a row is none.

    Raises:
        DataError: the file cannot be read, is damaged or expands too much, or a line is too long.
        MissingExtraError: a Parquet file, and pyarrow is not installed.
    """
    with open_bytes(path) as stream:
        start = stream.read(4096)
    if start[:4] == _PARQUET:
        yield from _parquet_rows(Path(path))
    elif start.lstrip()[:1] == b"[":
        yield from ((where, _checked(row)) for where, row in read_json_rows(path, longest=MAX_ROWS_FILE))
    else:
        yield from _lines(path)


def each_row(rows: Rows, tally: Tally, read: Callable[[str, Row], ResultT]) -> Iterator[ResultT]:
    """Yield what ``read`` makes of each row and its position; a row that is none, or that it rejects, is counted.

    Raises:
        DataError: the tally is strict, and a row is left out.
    """
    for where, row in rows:
        try:
            if isinstance(row, RowError):
                raise row
            made = read(where, row)
        except RowError as error:
            tally.leave_out(where, error)
        else:
            yield made


def _checked(row: Any) -> Row | RowError:
    return row if isinstance(row, dict) else RowError("the row is no JSON object", f"got {short_repr(row)}")


def _lines(path: str | Path) -> Iterator[tuple[str, Row | RowError]]:
    for where, line in read_lines(path, MAX_LINE):
        if line.isspace():
            continue
        try:
            row = parse_json(line, where="", limits=_LINE)
        except DataError as error:
            cut = "" if line.endswith("\n") else " (the file ends here: is it truncated?)"
            yield where, RowError("the line is not JSON within the limits", str(error).removeprefix(": ") + cut)
            continue
        if isinstance(row, dict) and row.keys() >= _TABLE and isinstance(row["data"], list):
            yield from _table_rows(where, row)
        else:
            yield where, _checked(row)


def _table_rows(where: str, table: Row) -> Iterator[tuple[str, Row | RowError]]:
    """Rows of a table as W&B stores it: names of columns, and a list of cells for each row."""
    columns = table["columns"]
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        yield where, RowError("the table's columns are no list of names", short_repr(columns))
        return
    for number, cells in enumerate(table["data"], 1):
        place = f"{where}, row {number}"
        if not isinstance(cells, list) or len(cells) != len(columns):
            yield place, RowError("the row has not one cell for each column", short_repr(cells))
        else:
            yield place, dict(zip(columns, cells, strict=True))


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row | RowError]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtraError("pyarrow", "export") from error
    allowed = max(ALLOWANCE, MAX_RATIO * path.stat().st_size)
    read, number = 0, 0
    try:
        with ParquetFile(path) as file:
            size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
            if size > min(allowed, MAX_ROWS_FILE):
                raise DataError(f"{path}: its columns take {size:,} bytes, more than {MAX_RATIO} times the file")
            for batch in file.iter_batches(batch_size=_BATCH, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    read += _characters(row)  # not the size of the batch: a dictionary holds a repeated text once
                    if read > allowed:
                        raise DataError(f"{path}: its rows take more than {MAX_RATIO} times the file's size")
                    yield f"{path}: row {number}", _plain_row(row)
    except (ArrowException, OSError, OverflowError, RecursionError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: damaged or unsupported Parquet data: {error}") from error


def _characters(value: Any) -> int:
    """Length of all texts of a row, and one for any other value."""
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    if isinstance(value, list):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str | bytes) else 1


def _plain_row(row: Row) -> Row | RowError:
    plain: Row = _without_nan(row, 0)
    try:
        check_plain(plain, _LINE, "a cell")
    except DataError as error:
        return RowError("a cell is no text, number, list or object", str(error))
    return plain


def _without_nan(value: Any, depth: int) -> Any:
    """A copy in which nan, pandas' missing number, is None, as are fields that Arrow adds to make objects alike."""
    if depth > _LINE.depth:
        return value
    if isinstance(value, dict):
        return {key: _without_nan(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item, depth + 1) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
