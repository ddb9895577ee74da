"""Progress of long work: a bar on a terminal, otherwise a plain line at intervals; and lines printed above the bar.

Why tqdm and not rich: rich takes 14 MB, wraps tables to the width of the terminal, and has nothing that is needed here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

__all__ = ["note", "progress"]

T = TypeVar("T")
QUIET_SECONDS = 10.0  # minimum time between two lines without a terminal


def progress(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yield ``items`` and show on standard error how many of them are done.

    Args:
        items: the items.
        what: name of the work.
        total: number of items.
    """
    if sys.stderr.isatty():
        yield from tqdm(items, desc=what, total=total, file=sys.stderr, leave=False)
        return
    began = last_line = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last_line >= QUIET_SECONDS and done < total:
            last_line = now
            taken = now - began
            note(f"{what}: {done}/{total} after {taken:.0f} s, about {taken / done * (total - done):.0f} s left")


def note(text: str) -> None:
    """Print a line on standard error, above the bar if there is one."""
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
