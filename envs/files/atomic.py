"""Files and folders that appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from creditflow.envs.files.leftovers import remove_leftovers, temporary_of, writing

__all__ = ["atomic_path", "atomic_writer", "new_folder"]


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty temporary file to write to; it gets its name when the block ends without error, and else is removed.

    Raises:
        DataError: this process is writing the same file already.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    temporary = temporary_of(path)
    temporary.open("ab").close()
    with writing(temporary):
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str], *, encoding: str = "ascii") -> Iterator[IO[str]]:
    """A text stream whose file appears under its name only when the block ends without error (gzip for ``.gz``)."""
    with atomic_path(path) as temporary, temporary.open("wb") as raw:
        # no name and no time inside: equal logs give equal bytes
        packed: Any = (
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6)
            if Path(path).suffix == ".gz"
            else raw
        )
        with io.TextIOWrapper(packed, encoding=encoding, newline="\n") as stream:
            yield stream
            stream.flush()
        if not raw.closed:
            raw.flush()


@contextlib.contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A temporary folder that gets its name when the block ends without error, and else is removed.

    Args:
        path: the folder to make.
        replace: put it in the place of a folder that exists.

    Raises:
        DataError: this process is making the same folder already.
        OSError: the folder exists and is not empty, without ``replace``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    temporary = temporary_of(path)
    temporary.mkdir(exist_ok=True)
    with writing(temporary):
        try:
            yield temporary
            old = temporary_of(path, old=True)
            if replace and path.exists():
                path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old, ignore_errors=True)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
