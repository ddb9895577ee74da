"""Progress on long work: a bar on a terminal, a plain line now and then anywhere else; and notes that leave the bar whole.

tqdm on a terminal, at most one line in ten seconds elsewhere; rich was weighed (14 MB installed, wraps tables to the
terminal) and adds nothing that is printed here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

__all__ = ["note", "progress"]

T = TypeVar("T")
QUIET_SECONDS = 10.0  # without a terminal, one line at most this often


def progress(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yield ``items`` and show on standard error how far it is."""
    if sys.stderr.isatty():
        yield from tqdm(items, desc=what, total=total, file=sys.stderr, leave=False)
        return
    began = said = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - said >= QUIET_SECONDS and done < total:
            said = now
            note(f"{what}: {done}/{total} after {now - began:.0f} s")


def note(text: str) -> None:
    """Print a line on standard error, above the bar if there is one."""
    tqdm.write(text, file=sys.stderr)
    sys.stderr.flush()
