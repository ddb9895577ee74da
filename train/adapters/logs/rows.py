"""Rows of a file, values of rows, and the report of what an import read, left out and assumed.

A file is JSON Lines, a JSON list, a table logged by W&B, or Parquet. A row that is no JSON object is the caller's to count; a
file that is damaged as a whole is an error. Compressed text and Parquet may not expand to more than the usual ratio.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

from creditflow.envs.errors import DataError, MissingExtraError, short_repr
from creditflow.envs.reading.json_text import parse_json, read_json_rows
from creditflow.envs.reading.limits import ALLOWANCE, MAX_LINE, MAX_RATIO, MAX_ROWS_FILE, Limits
from creditflow.envs.reading.plain_data import check_plain
from creditflow.envs.reading.streams import open_bytes, read_lines
from creditflow.train.text_table import text_table
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import Log

__all__ = [
    "MISSING",
    "ImportReport",
    "Row",
    "RowError",
    "Rows",
    "Tally",
    "at_path",
    "each_row",
    "given_name",
    "key_of",
    "number",
    "own_name",
    "read_rows",
    "require_any",
    "text",
    "truth",
]


LONGEST_EXAMPLE: Final = 300  # characters


class RowError(DataError):
    """Raised for one row that cannot be read.

    Attributes:
        reason: a constant text, by which rows are counted.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


@dataclass
class Tally:
    """Counts of one import.

    Attributes:
        strict: whether the first row that cannot be read is an error.
        rows: rows of the file.
        left_out: rows or rollouts left out, by reason.
        examples: the first of them, by reason: where, and what was wrong.
        notes: what was assumed or adjusted, with the number of rollouts or turns concerned.
        turns, empty: turns read, and those of them in which the model wrote nothing.
        unknown_ends: words under the field of ends that are not known.
    """

    strict: bool = False
    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    empty: int = 0
    unknown_ends: Counter[str] = field(default_factory=Counter)

    def leave_out(self, where: str, error: RowError) -> None:
        """Count a row that cannot be read.

        Raises:
            DataError: with ``strict``; names the row.
        """
        if self.strict:
            raise DataError(f"{where}: {error}") from error
        self.left_out[error.reason] += 1
        self.examples.setdefault(error.reason, f"{where}: {error}"[:LONGEST_EXAMPLE])

    def note(self, text: str, count: int = 1) -> None:
        """Count an assumption or adjustment; 0 does nothing."""
        if count:
            self.notes[text] += count


@dataclass(frozen=True)
class ImportReport:
    """Result of an import.

    Attributes:
        source: library whose log it is.
        log: the groups, and the order of the rollouts in the file.
        tally: counts.
    """

    source: str
    log: Log
    tally: Tally

    @property
    def groups(self) -> tuple[Group, ...]:
        """In order of first appearance."""
        return self.log.groups

    @property
    def rollouts(self) -> int:
        """Number of trajectories."""
        return sum(map(len, self.groups))

    def warnings(self) -> list[str]:
        """What keeps schemes from comparing anything, counted: empty texts, groups of one, groups with equal outcomes."""
        groups, texts = self.groups, list[str]()
        if self.tally.empty:
            texts.append(
                f"{self.tally.empty:,} of {self.tally.turns:,} responses are empty: is some text under another key?"
            )
        single = sum(len(group) == 1 for group in groups)
        if single:
            sizes = Counter(map(len, groups)).most_common(3)
            most = ", ".join(f"{count:,} of {size}" for size, count in sizes)
            texts.append(
                f"{single:,} of {len(groups):,} groups have one rollout, which nothing is compared with (groups by size: {most}); is "
                "their group or task named wrongly? --group FIELD names it"
            )
        dead = sum(len(group) > 1 and len(set(group.arrays.returns.tolist())) == 1 for group in groups)
        if dead == len(groups) - single and dead:
            texts.append(
                f"all rollouts of every group have equal rewards ({dead:,} groups): outcomes alone teach nothing"
            )
        return texts

    def to_json(self) -> dict[str, Any]:
        """Counts as plain values: what was read, what was left out and why, what was assumed."""
        return {
            "source": self.source,
            "rows": self.tally.rows,
            "groups": len(self.groups),
            "rollouts": self.rollouts,
            "turns": sum(len(group.turns) for group in self.groups),
            "successes": sum(member.success for group in self.groups for member in group.trajectories),
            "groups_of_one": sum(len(group) == 1 for group in self.groups),
            "left_out": [
                {"reason": reason, "count": count, "first": self.tally.examples[reason]}
                for reason, count in self.tally.left_out.items()
            ],
            "warnings": self.warnings(),
            "notes": [{"note": note, "count": count} for note, count in self.tally.notes.items()],
        }

    def to_text(self) -> str:
        """The same as tables."""
        data = self.to_json()
        counts = ("rows", "groups", "rollouts", "turns", "successes", "groups_of_one")
        sections = [text_table([["read", ""], *([name.replace("_", " "), f"{data[name]:,}"] for name in counts)])]
        if data["left_out"]:
            rows = [[f"{row['count']:,}", row["reason"], row["first"]] for row in data["left_out"]]
            sections.append(text_table([["left out", "reason", "first"], *rows]))
        sections += [f"warning: {warning}" for warning in data["warnings"]]
        if data["notes"]:
            sections.append(
                text_table([["count", "note"], *([f"{row['count']:,}", row["note"]] for row in data["notes"])])
            )
        return "\n\n".join(sections)


def require_any(path: str, groups: Sequence[Group], tally: Tally) -> None:
    """Raise DataError, with the reasons, if nothing could be read, or if the model never wrote anything."""
    if groups and tally.empty == tally.turns:
        raise DataError(
            f"{path}: all {tally.turns:,} responses are empty, so there is nothing to learn; the model's text is expected where this "
            "format has it: in messages under 'content', with the role 'assistant'"
        )
    if groups:
        return
    reasons = "; ".join(f"{count} × {tally.examples[reason]}" for reason, count in tally.left_out.most_common(3))
    raise DataError(f"{path}: no rollout could be read" + (f" of {tally.rows} rows: {reasons}" if reasons else ""))


LONGEST_KEY: Final = 64  # characters of a state key
LONGEST_NAME: Final = 256  # characters of an id
MISSING: Final = object()


def at_path(row: Any, path: str) -> Any:
    """The value under a name, or under names and indices joined by dots; ``MISSING`` if there is none.

    >>> at_path({"info": {"states": ["a", "b"]}}, "info.states.1")
    'b'
    """
    if isinstance(row, Mapping) and path in row:
        return row[path]
    for step in path.split("."):
        if isinstance(row, Mapping) and step in row:
            row = row[step]
        elif isinstance(row, list) and step.isdecimal() and int(step) < len(row):
            row = row[int(step)]
        else:
            return MISSING
    return row


def text(row: Mapping[str, Any], name: str) -> str:
    """The text under a name.

    Raises:
        RowError: there is none.
    """
    value = row.get(name, MISSING)
    if not isinstance(value, str):
        actual = "missing" if value is MISSING else short_repr(value)
        raise RowError(f"there is no text under {name!r}", f"{actual}; keys: {short_repr(sorted(map(str, row)), 200)}")
    return value


def number(value: Any, name: str) -> float:
    """A finite number, also as a text; true and false count as 1 and 0.

    Raises:
        RowError: another value.
    """
    if isinstance(value, str) and len(value) <= 40 and "_" not in value:
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, int | float):
        try:
            result = float(value)
        except OverflowError:
            result = math.inf
        if math.isfinite(result):
            return result
    raise RowError(f"{name!r} is not a finite number", "missing" if value is MISSING else short_repr(value))


_TRUE: Final = frozenset(("true", "yes", "1", "1.0"))
_FALSE: Final = frozenset(("false", "no", "0", "0.0"))


def truth(value: Any, name: str) -> bool | None:
    """True or false, also as 1 and 0 or as a text; None if the value is missing (None, "").

    >>> truth("True", "cut"), truth(0.0, "cut"), truth(None, "cut")
    (True, False, None)

    Raises:
        RowError: another value.
    """
    word = str(value).strip().lower() if isinstance(value, str | int | float) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if value is None or value is MISSING or value == "":
        return None
    raise RowError(f"{name!r} is neither true nor false", short_repr(value))


def given_name(value: Any) -> str:
    """An id as the file gives it: a text of at most ``LONGEST_NAME`` characters or a whole number; anything else is hashed.

    >>> given_name("run 7/ä"), given_name(12), given_name(12.0), given_name(None)[:5]
    ('run 7/ä', '12', '12', 'hash:')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as pandas writes whole numbers of a column with gaps
    if isinstance(value, str) and 0 < len(value) <= LONGEST_NAME:
        return value
    return str(value) if type(value) is int and abs(value) < 2**63 else key_of([value])


def own_name(value: Any) -> str:
    """The name under a format's own field; "" if there is none."""
    return "" if value is None or value is MISSING or value == "" else given_name(value)


def key_of(value: Any) -> str:
    """A value as a key: a short printable text is its own, anything else is hashed; equal values and no others are equal.

    >>> key_of("room 3"), len(key_of("x" * 100)), key_of({"x": 1})[:5]
    ('room 3', 37, 'hash:')
    """
    if (
        isinstance(value, str)
        and 0 < len(value) <= LONGEST_KEY
        and value.isprintable()
        and not value.startswith("hash:")
    ):
        return value
    written = json.dumps(_without_signed_zero(value), sort_keys=True, separators=(",", ":"))
    return "hash:" + blake2b(written.encode(), digest_size=16).hexdigest()


def _without_signed_zero(value: Any) -> Any:
    """A copy in which equal numbers are written equally: −0.0 as 0, and whole floats as integers."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        return {key: _without_signed_zero(item) for key, item in value.items()}
    return [_without_signed_zero(item) for item in value] if isinstance(value, list | tuple) else value


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
    elif start.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"[":
        yield from (
            (where, _checked(row)) for where, row in read_json_rows(path, longest=MAX_ROWS_FILE, nan_as_null=True)
        )
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
            result = read(where, row)
        except RowError as error:
            tally.leave_out(where, error)
        else:
            yield result


def _checked(row: Any) -> Row | RowError:
    return row if isinstance(row, dict) else RowError("the row is no JSON object", f"got {short_repr(row)}")


def _lines(path: str | Path) -> Iterator[tuple[str, Row | RowError]]:
    for where, line in read_lines(path, MAX_LINE):
        if line.isspace():
            continue
        try:
            row = parse_json(line, where="", limits=_LINE, nan_as_null=True)
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
        position = f"{where}, row {number}"
        if not isinstance(cells, list) or len(cells) != len(columns):
            yield position, RowError("the row has not one cell for each column", short_repr(cells))
        else:
            yield position, dict(zip(columns, cells, strict=True))


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row | RowError]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtraError("pyarrow", "parquet") from error
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
    """A copy in which NaN, pandas' missing number, and infinities are None, without the empty fields that Arrow adds to make objects alike.

    >>> _without_nan({"a": float("nan"), "b": {"x": 1, "y": None}}, 0)
    {'a': None, 'b': {'x': 1}}
    """
    if depth > _LINE.depth:
        return value
    if isinstance(value, dict):
        items = {key: _without_nan(item, depth + 1) for key, item in value.items()}
        return items if depth == 0 else {key: item for key, item in items.items() if item is not None}
    if isinstance(value, list):
        return [_without_nan(item, depth + 1) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
