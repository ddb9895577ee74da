"""One writer of an output at a time: a lock that ends with the process that holds it, even if it is killed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from creditflow.envs.errors import ConfigError

__all__ = ["BusyError", "locked"]


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
