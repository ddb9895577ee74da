"""Atomic writes: files and folders are written under a temporary name, then renamed."""

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
    """Yield an empty temporary file, which is renamed to ``path`` if the block ends without error, else removed.

    Raises:
        DataError: this process is already writing the same file.
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
    """Yield a text stream to a file that gets its name if the block ends without error (gzip for ``.gz``)."""
    with atomic_path(path) as temporary, temporary.open("wb") as raw:
        # no file name and no time in the header, so that equal logs have equal bytes
        compressed: Any = (
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6)
            if Path(path).suffix == ".gz"
            else raw
        )
        with io.TextIOWrapper(compressed, encoding=encoding, newline="\n") as stream:
            yield stream
            stream.flush()
        if not raw.closed:
            raw.flush()


@contextlib.contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to ``path`` if the block ends without error, else removed.

    Args:
        path: the folder to create.
        replace: replace an existing folder.

    Raises:
        DataError: this process is already writing the same folder.
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
