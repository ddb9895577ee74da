"""Progress of long work: a bar on a terminal, otherwise a plain line at intervals; and lines printed above the bar.

Why tqdm and not rich: rich takes 14 MB, wraps tables to the width of the terminal, and has nothing that is needed here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

__all__ = ["duration_text", "note", "progress"]

T = TypeVar("T")
QUIET_SECONDS = 10.0  # minimum time between two lines without a terminal
AT_ONCE = 0.01  # seconds


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
    began = last_line = before = time.monotonic()
    stored = 0  # the first items, if they come at once: results of an earlier run
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        stored, before = stored + (stored == done - 1 and now - before <= AT_ONCE), now
        if now - last_line >= QUIET_SECONDS and done < total:
            last_line = now
            elapsed = now - began
            remaining = duration_text(elapsed / (done - stored or done) * (total - done))
            note(f"{what}: {done}/{total} after {duration_text(elapsed)}, about {remaining} left")


def duration_text(seconds: float) -> str:
    """A duration as people say it, no finer than an estimate can be.

    >>> duration_text(42.3), duration_text(200), duration_text(8000), duration_text(360_000)
    ('42 s', '3 min', '2 h 13 min', '100 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 10 else f"{hours} h"


def note(text: str) -> None:
    """Print a line on standard error, above the bar if there is one."""
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
