"""Ranks as threads of one process, for code that only gathers: they exchange what JSON makes of their values."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any, TypeVar

from creditflow.train.distributed.world import World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Where the ranks put their values for each other."""

    barrier: Barrier
    values: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _ThreadedWorld(World):
    """A rank that is a thread."""

    meeting: _Meeting = field(default_factory=lambda: _Meeting(Barrier(1)))

    def gather(self, value: Any) -> list[Any]:
        self.meeting.values[self.rank] = json.dumps(value)
        self.meeting.barrier.wait(60.0)
        found = [json.loads(self.meeting.values[rank]) for rank in range(self.size)]
        self.meeting.barrier.wait(60.0)  # before anyone writes again
        return found


def in_threads(size: int, work: Callable[[World], T]) -> list[T]:
    """Run work in every rank; returns the values by rank, or raises the error of the first rank that failed."""
    meeting = _Meeting(Barrier(size))

    def run(rank: int) -> T:
        try:
            return work(_ThreadedWorld(rank, size, meeting=meeting))
        except BaseException:
            meeting.barrier.abort()  # the others must not wait for this one
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))
