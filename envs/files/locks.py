"""Advisory locks that end with the process that holds them, however it ends.

``flock`` belongs to an open file, so the kernel takes it back from a process that was killed. A forked child closes
what it inherits: a worker that outlives its parent holds no lock.
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

__all__ = ["BusyError", "locked", "release", "take"]

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
_held: set[int] = set()  # descriptors that carry a lock of this process


class BusyError(ConfigError):
    """Another command is writing there."""


def _drop_inherited() -> None:
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_drop_inherited)


def take(path: str | os.PathLike[str], *, create: bool = False) -> int | None:
    """Lock a file or folder exclusively, without waiting.

    Args:
        path: a file or folder.
        create: make an empty file if there is none.

    Returns:
        A descriptor for ``release``; None if somebody else holds the lock.

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
    _held.add(descriptor)
    return descriptor


def release(descriptor: int) -> bool:
    """Give a lock back; False in a forked child, which never had it."""
    if descriptor not in _held:
        return False
    _held.discard(descriptor)
    os.close(descriptor)
    return True


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Be the only one who writes to an output, a file or a folder that need not exist yet.

    The lock is a file NAME.lock beside it, which goes away at the end. One that a killed process left locks nothing.

    Raises:
        BusyError: another command writes there.
    """
    target = Path(os.path.realpath(path))
    file = target.with_name(target.name + ".lock")
    made = [folder for folder in file.parents if not folder.exists()]
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = _take_named(file, target)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        print(f"{target}: this file system has no locks; let no other command write there", file=sys.stderr)
        yield
        return
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))  # for the message of whoever comes second
        yield
    finally:
        if descriptor in _held:
            file.unlink(missing_ok=True)
            release(descriptor)
            for folder in made:  # a command that wrote nothing leaves nothing
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _take_named(file: Path, target: Path) -> int:
    """Lock the file under its name, not one that its last holder has just removed."""
    while True:
        descriptor = take(file, create=True)
        if descriptor is None:
            with contextlib.suppress(OSError):
                holder = file.read_text(encoding="ascii", errors="replace").strip()[:20]
                who = f" (process {holder})" if holder else ""
                raise BusyError(f"{target}: another command{who} is writing there; wait for it, or name another output")
            continue  # it has just ended
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        release(descriptor)
