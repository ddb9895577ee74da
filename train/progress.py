"""Progress on long work: a bar on a terminal, a plain line now and then anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

__all__ = ["progress"]

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
            print(f"{what}: {done}/{total} after {now - began:.0f} s", file=sys.stderr, flush=True)
