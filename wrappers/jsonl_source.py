"""Where a log comes from: a plain or gzip file, or an open stream; an archive that blows up is refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from creditflow.envs.errors import TrajectoryError

__all__ = ["open_text"]

MAX_GZIP_RATIO = 200  # logs compress 5 to 40 times
GZIP_SLACK = 64 * 2**20  # below this size a ratio is not suspicious


class _CappedGzip(io.RawIOBase):
    """Decompresses while refusing archives that blow up."""

    def __init__(self, path: Path) -> None:
        self._packed = path.stat().st_size
        self._file = gzip.open(path, "rb")  # noqa: SIM115 - closed in close()
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read(len(buffer))
        self._count += len(chunk)
        if self._count > GZIP_SLACK and self._count > MAX_GZIP_RATIO * self._packed:
            raise TrajectoryError(
                f"unpacks to more than {MAX_GZIP_RATIO} times its size: not a trajectory log, or a hostile one"
            )
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def open_text(source: str | os.PathLike[str] | IO[str]) -> Iterator[tuple[IO[str], str]]:
    """A text stream and the name that errors call it by; a path is closed at the end, a stream is the caller's.

    Raises:
        TrajectoryError: no such file, a folder, an empty archive; while reading, an archive that blows up.
    """
    if hasattr(source, "read"):
        yield source, getattr(source, "name", "<stream>")  # type: ignore[misc]  # narrowed by hasattr
        return
    path = Path(source)
    if path.is_dir():
        raise TrajectoryError(f"{path}: is a folder, expected a .jsonl or .jsonl.gz file")
    if not path.exists():
        raise TrajectoryError(f"{path}: no such file")
    if path.suffix == ".gz" and not path.stat().st_size:
        raise TrajectoryError(f"{path}: line 0: an empty file is no gzip archive: was it cut short?")
    raw: Any = io.BufferedReader(_CappedGzip(path), 2**20) if path.suffix == ".gz" else path.open("rb")
    with io.TextIOWrapper(raw, encoding="utf-8", errors="strict", newline="\n") as stream:
        yield stream, str(path)
