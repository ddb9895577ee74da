"""Files of lines that are read once and then appended to: caches of what a served model said."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["appended_lines"]


def appended_lines(path: Path) -> list[bytes]:
    """The lines of such a file, without their ends.

    A torn last line, which a process leaves that was killed while it wrote, is cut off the file: the next line would
    otherwise be appended to it.
    """
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
    return data[:whole].split(b"\n")[:-1]
