"""Files that appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

__all__ = ["atomic_writer"]


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str], *, encoding: str = "ascii") -> Iterator[IO[str]]:
    """A text stream whose file appears under its name only when the block ends without error (gzip for ``.gz``)."""
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as raw:
            # no name and no time inside: equal logs give equal bytes
            packed: Any = (
                gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6)
                if path.suffix == ".gz"
                else raw
            )
            with io.TextIOWrapper(packed, encoding=encoding, newline="\n") as stream:
                yield stream
                stream.flush()
            if not raw.closed:
                raw.flush()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
