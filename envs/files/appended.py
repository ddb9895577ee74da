"""JSON Lines files that are read once and then appended to, such as caches of a served model's responses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from creditflow.envs.reading.json_text import read_json_lines

__all__ = ["cut_torn_line", "read_appended"]

_BLOCK: Final = 2**16


def cut_torn_line(path: Path) -> None:
    """Remove an unfinished last line, as left by a process that was killed while it wrote.

    The next line would otherwise be appended to it.
    """
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


def read_appended(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the JSON values of such a file, each with its position: "file: line 7".

    Raises:
        DataError: a complete line is not JSON, or too long.
    """
    cut_torn_line(path)
    yield from read_json_lines(path)
