"""Temporary files and folders: how they are called, that somebody writes them, and removing those that nobody writes.

What is written to NAME is first called NAME.PID.tmp. A process that was killed leaves it behind; the next one that writes
NAME removes it. It is left alone while its process lives, or while anybody, perhaps on another machine that shares the
disk, holds its lock.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from creditflow.envs.errors import DataError
from creditflow.envs.files.locks import release, take

__all__ = ["is_leftover", "remove_leftovers", "remove_leftovers_below", "temporary_of", "writing"]

_NAME: Final = re.compile(r"(?P<name>.+?)(?:\.old)?\.(?P<pid>\d{1,10})\.tmp", re.DOTALL)


def temporary_of(path: Path, *, old: bool = False) -> Path:
    """Where this process writes what will be called ``path``; ``old``: where it puts what was called so before."""
    return path.with_name(f"{path.name}{'.old' if old else ''}.{os.getpid()}.tmp")


@contextlib.contextmanager
def writing(temporary: Path) -> Iterator[None]:
    """Say that this process is at a temporary file or folder, which exists.

    Raises:
        DataError: somebody else is.
    """
    try:
        descriptor = take(temporary)
    except OSError:  # no locks here: the process id in the name has to do
        yield
        return
    if descriptor is None:
        raise DataError(f"{temporary}: is being written already; wait for it, or name another output")
    try:
        yield
    finally:
        release(descriptor)


def remove_leftovers(path: Path) -> None:
    """Remove what ended processes left of writing ``path``."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path.parent) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match and match["name"] == path.name:
                _remove_if_abandoned(Path(entry.path))


def remove_leftovers_below(folder: Path) -> None:
    """Remove what ended processes left anywhere in a folder that is a command's own."""
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            if _NAME.fullmatch(name):
                _remove_if_abandoned(Path(root, name))


def is_leftover(path: Path) -> bool:
    """Whether it is a temporary file or folder that nobody writes any more."""
    descriptor = _abandoned(path)
    return descriptor is not None and release(descriptor)


def _remove_if_abandoned(path: Path) -> None:
    descriptor = _abandoned(path)
    if descriptor is None:
        return
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    finally:
        release(descriptor)


def _abandoned(path: Path) -> int | None:
    """The lock of a temporary whose process has ended and that nobody else holds; else None."""
    match = _NAME.fullmatch(path.name)
    if match is None or path.is_symlink() or _lives(int(match["pid"])):
        return None
    try:
        return take(path)
    except OSError:
        return None


def _lives(pid: int) -> bool:
    """Whether another process has this id; our own id on what we do not lock is that of an earlier process."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
