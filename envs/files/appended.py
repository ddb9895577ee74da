"""JSON Lines files that are read once and then appended to, such as caches of a served model's responses.

A process that is killed while it writes leaves an unfinished last line, to which the next line would be appended. It is
removed, but only from a file whose other lines are known to be ours: a file of another kind stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.reading.limits import MAX_LINE, Limits
from creditflow.envs.reading.streams import numbered_lines

__all__ = ["complete_lines", "cut_torn_line", "read_appended"]

_BLOCK: Final = 2**16
_LIMITS: Final = Limits(characters=MAX_LINE)


def complete_lines(lines: Iterable[tuple[str, str]], beginning: str, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the lines that end in a newline and are not blank.

    Args:
        lines: lines of a file with their positions, as ``numbered_lines`` yields them.
        beginning: text with which every file of this kind begins. It is compared if no line is complete; otherwise the caller
            can tell a file of another kind by its lines.
        kind: of the file, for the message: "a cache".

    Raises:
        DataError: the only line is unfinished and begins otherwise.
    """
    matched = False
    for where, line in lines:
        if line.isspace():
            continue
        if line.endswith("\n"):
            matched = True
            yield where, line
        elif not matched and not (line.startswith(beginning) or beginning.startswith(line)):
            raise DataError(
                f"{where}: not {kind}, which begins with {beginning!r}, got {short_repr(line)}; name another file"
            )


def read_appended(path: Path, beginning: str, kind: str) -> Iterator[tuple[str, Any]]:
    """Yield the JSON values of such a file, each with its position: "file: line 7".

    The unfinished last line is removed when all values have been taken. A caller that raises an error at a value of another
    format therefore leaves the file untouched.

    Args:
        path: the file; it is never compressed, because lines are appended to it.
        beginning, kind: see ``complete_lines``.

    Raises:
        DataError: see ``complete_lines``; or a complete line is not JSON, or too long.
        OSError: the file cannot be opened.
    """
    with path.open(encoding="utf-8", newline="\n") as stream:
        for where, line in complete_lines(numbered_lines(stream, str(path), MAX_LINE), beginning, kind):
            yield where, parse_json(line, where=where, limits=_LIMITS)
    cut_torn_line(path)


def cut_torn_line(path: Path) -> None:
    """Remove an unfinished last line."""
    with path.open("r+b") as stream:
        size = end = stream.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _BLOCK)
            stream.seek(start)
            newline = stream.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            stream.truncate(end)
