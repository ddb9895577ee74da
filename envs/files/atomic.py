"""Atomic writes: files and folders are written under a temporary name, then renamed.

A write to NAME goes to NAME.<8 hex digits>.tmp first; through a link it goes beside the file or folder that the link names. A
killed process leaves its temporary file behind, and the next command that holds the lock of NAME removes it.
``locked`` is that lock: one writer of an output at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import io
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from filelock import FileLock, Timeout

from creditflow.envs.errors import ConfigError

__all__ = [
    "BusyError",
    "atomic_path",
    "atomic_writer",
    "is_leftover",
    "locked",
    "new_folder",
    "remove_leftovers",
    "remove_leftovers_below",
    "write_json",
]

_LEFTOVER: Final = re.compile(r"(?P<name>.+)\.(?P<kind>old|[0-9a-f]{8})\.tmp", re.DOTALL)
_AT_CWD, _EXCHANGE = -100, 2  # of Linux's renameat2


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")


def _old(path: Path) -> Path:
    """Name of the version that is being replaced."""
    return path.with_name(f"{path.name}.old.tmp")


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty temporary file, which is renamed to ``path`` if the block ends without error, else removed.

    A file that is replaced hands down its mode. A link stays a link: the file that it names is replaced.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    temporary.open("xb").close()
    try:
        if path.exists():
            shutil.copymode(path, temporary)
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


def write_json(path: str | os.PathLike[str], document: Any) -> None:
    """Write dictionaries, lists, texts and numbers as JSON with a line for each value; nan, which JSON lacks, as null.

    Raises:
        ValueError: the document holds an infinity.
    """
    with atomic_writer(path, encoding="utf-8") as stream:
        json.dump(_with_nulls(document), stream, indent=1, ensure_ascii=False, allow_nan=False)
        stream.write("\n")


def _with_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_nulls(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(entry) for entry in value]
    return None if isinstance(value, float) and value != value else value


@contextlib.contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to ``path`` if the block ends without error, else removed.

    Args:
        path: the folder to create; a link to a folder stays, and the folder that it names is replaced.
        replace: replace an existing folder.

    Raises:
        OSError: the folder exists and is not empty, without ``replace``.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    temporary.mkdir()
    try:
        if path.exists():
            shutil.copymode(path, temporary)
        yield temporary
        _restore(path)
        if replace and path.exists():
            _replace_folder(temporary, path)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(new: Path, path: Path) -> None:
    """Give ``new`` the name of another folder, which is removed. A kill at any moment leaves one of them under the name."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)  # Linux; one step, where the file system can
    if exchange is None or exchange(_AT_CWD, os.fsencode(new), _AT_CWD, os.fsencode(path), _EXCHANGE):
        # two steps: what a kill between them leaves, _restore names again
        path.rename(_old(path))
        new.rename(path)
    for old in (new, _old(path)):
        shutil.rmtree(old, ignore_errors=True)


def _restore(path: Path) -> None:
    """Give the old version its name back if a killed process left it without a new one."""
    old = _old(path)
    if not old.exists():
        return
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.rename(path)


def remove_leftovers(path: Path) -> None:
    """Remove what killed processes left when they wrote ``path``. The caller holds its lock (``locks.locked``)."""
    path = Path(os.path.realpath(path))
    _restore(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path.parent) as entries:
        for entry in entries:
            match = _LEFTOVER.fullmatch(entry.name)
            if match and match["name"] == path.name:
                _remove(Path(entry.path))


def remove_leftovers_below(folder: Path) -> None:
    """Remove what killed processes left anywhere in a folder that belongs to one command, which holds its lock."""
    for root, folders, files in os.walk(folder, topdown=False):
        for name in [*folders, *files]:
            if match := _LEFTOVER.fullmatch(name):
                _restore(Path(root, match["name"]))
                _remove(Path(root, name))


def is_leftover(path: Path) -> bool:
    """Return whether the path has the name of a temporary file or folder."""
    return _LEFTOVER.fullmatch(path.name) is not None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class BusyError(ConfigError):
    """Another command is writing to the same output."""


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the exclusive right to write an output, a file or a folder that need not exist yet.

    The lock is a file NAME.lock next to it, removed at the end. One that a killed process left is not locked.

    Raises:
        BusyError: another command is writing to it.
    """
    target = Path(os.path.realpath(path))
    file = target.with_name(target.name + ".lock")
    created = [folder for folder in file.parents if not folder.exists()]
    file.parent.mkdir(parents=True, exist_ok=True)
    lock, owner = FileLock(file, blocking=False), os.getpid()
    try:
        lock.acquire()
    except Timeout as error:
        raise BusyError(f"{target}: another command is writing there; wait for it, or name another output") from error
    try:
        yield
    finally:
        if os.getpid() == owner:  # a forked worker that leaves this block does not hold the lock
            file.unlink(missing_ok=True)  # while it is held: whoever opened it meanwhile tries again with a new file
        lock.release()
        for folder in created:  # removed again if the command wrote nothing
            with contextlib.suppress(OSError):
                folder.rmdir()
