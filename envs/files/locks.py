"""Advisory locks that are released when the process that holds them ends, even if it is killed.

``flock`` belongs to an open file, so the kernel releases it. A forked child closes the descriptors that it inherits, so a
worker that outlives its parent holds no lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from creditflow.envs.errors import ConfigError

__all__ = ["BusyError", "acquire", "locked", "release"]

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
_descriptors: set[int] = set()  # descriptors of this process's locks


class BusyError(ConfigError):
    """Another command is writing to the same output."""


def _drop_inherited() -> None:
    while _descriptors:
        os.close(_descriptors.pop())


os.register_at_fork(after_in_child=_drop_inherited)


def acquire(path: str | os.PathLike[str], *, create: bool = False) -> int | None:
    """Lock a file or folder exclusively, without waiting.

    Args:
        path: a file or folder.
        create: create an empty file if there is none.

    Returns:
        A descriptor for ``release``; None if the lock is held elsewhere.

    Raises:
        OSError: the path cannot be opened, or its file system has no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666) if create else os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    _descriptors.add(descriptor)
    return descriptor


def release(descriptor: int) -> bool:
    """Release a lock; False in a forked child, which does not hold it."""
    if descriptor not in _descriptors:
        return False
    _descriptors.discard(descriptor)
    os.close(descriptor)
    return True


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
    try:
        descriptor = _acquire_named(file, target)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        print(f"{target}: this file system has no locks: make sure that no other command writes there", file=sys.stderr)
        yield
        return
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))  # for the error message of a second command
        yield
    finally:
        if descriptor in _descriptors:
            file.unlink(missing_ok=True)
            release(descriptor)
            for folder in created:  # removed again if the command wrote nothing
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _acquire_named(file: Path, target: Path) -> int:
    """Lock the file that has this name now, not one that its last holder has just removed."""
    while True:
        descriptor = acquire(file, create=True)
        if descriptor is None:
            with contextlib.suppress(OSError):
                holder = file.read_text(encoding="ascii", errors="replace").strip()[:20]
                process = f" (process {holder})" if holder else ""
                raise BusyError(
                    f"{target}: another command{process} is writing there; wait for it, or name another output"
                )
            continue  # the holder has just ended
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        release(descriptor)
