"""Sources of logs: a plain or gzip file, or an open stream; decompression bombs are rejected."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from creditflow.envs.errors import TrajectoryError
from creditflow.envs.reading import streams

__all__ = ["open_text"]


@contextlib.contextmanager
def open_text(source: str | os.PathLike[str] | IO[str]) -> Iterator[tuple[IO[str], str]]:
    """Open a text stream; also return its name for error messages. A stream that was passed in is not closed.

    Raises:
        TrajectoryError: the file does not exist or is a folder.
        DataError: the file cannot be read; while reading: a damaged archive or a decompression bomb.
    """
    if not isinstance(source, str | os.PathLike):
        yield source, getattr(source, "name", "<stream>")
        return
    path = Path(source)
    if path.is_dir():
        raise TrajectoryError(f"{path}: is a folder, expected a .jsonl or .jsonl.gz file")
    if not path.exists():
        raise TrajectoryError(f"{path}: no such file")
    with streams.open_text(path) as stream:
        yield stream, str(path)
