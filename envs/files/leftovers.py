"""Temporary files and folders: their names, their locks, and removal of those that killed processes left.

A write to NAME goes to NAME.PID.tmp first. A killed process leaves it behind, and the next one that writes NAME removes
it, unless its process is alive or another process, perhaps on another machine with the same disk, holds its lock.
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
from creditflow.envs.files.locks import acquire, release

__all__ = ["is_leftover", "remove_leftovers", "remove_leftovers_below", "temporary_of", "writing"]

_NAME: Final = re.compile(r"(?P<name>.+?)(?:\.old)?\.(?P<pid>\d{1,10})\.tmp", re.DOTALL)


def temporary_of(path: Path, *, old: bool = False) -> Path:
    """Return this process's temporary name for ``path``; ``old``: the name for the version that is being replaced."""
    return path.with_name(f"{path.name}{'.old' if old else ''}.{os.getpid()}.tmp")


@contextlib.contextmanager
def writing(temporary: Path) -> Iterator[None]:
    """Hold the lock of an existing temporary file or folder while it is written.

    Raises:
        DataError: another writer holds it.
    """
    try:
        descriptor = acquire(temporary)
    except OSError:  # a file system without locks: only the process id in the name protects it
        yield
        return
    if descriptor is None:
        raise DataError(f"{temporary} is already being written; wait for it, or choose another output")
    try:
        yield
    finally:
        release(descriptor)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that ended processes left when they wrote ``path``."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path.parent) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match and match["name"] == path.name:
                _remove_if_abandoned(Path(entry.path))


def remove_leftovers_below(folder: Path) -> None:
    """Remove temporary files that ended processes left anywhere in a folder that belongs to one command."""
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            if _NAME.fullmatch(name):
                _remove_if_abandoned(Path(root, name))


def is_leftover(path: Path) -> bool:
    """Return whether the path is a temporary file or folder without a live writer."""
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
    """Acquire the lock of a temporary file whose process has ended; None if it is alive or the lock is held."""
    match = _NAME.fullmatch(path.name)
    if match is None or path.is_symlink() or _is_alive(int(match["pid"])):
        return None
    try:
        return acquire(path)
    except OSError:
        return None


def _is_alive(pid: int) -> bool:
    """Return whether another process has this id (our own id on an unlocked file is that of an earlier process)."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
