"""Where a log comes from: a plain or gzip file, or an open stream; an archive that blows up is refused."""

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
    """A text stream and the name that errors call it by; a path is closed at the end, a stream is the caller's.

    Raises:
        TrajectoryError: no such file, or a folder.
        DataError: it cannot be read; while reading, a damaged archive or one that blows up.
    """
    if hasattr(source, "read"):
        yield source, getattr(source, "name", "<stream>")  # type: ignore[misc]  # narrowed by hasattr
        return
    path = Path(source)
    if path.is_dir():
        raise TrajectoryError(f"{path}: is a folder, expected a .jsonl or .jsonl.gz file")
    if not path.exists():
        raise TrajectoryError(f"{path}: no such file")
    with streams.open_text(path) as stream:
        yield stream, str(path)
