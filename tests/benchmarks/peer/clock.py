"""CPU and wall-clock seconds of iterations, and CPU seconds of their parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["GENERATION", "REST", "UPDATE", "Clock"]

GENERATION: Final = "generation"
REST: Final = "environment, text"
UPDATE: Final = "update"  # and credit, which is a thousandth of it


class Clock:
    """Times iterations. A part inside another counts for the inner one alone.

    Attributes:
        wall, cpu: seconds of every finished iteration.
        parts: by name of a part, its CPU seconds in every finished iteration.
    """

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.parts: dict[str, list[float]] = {}
        self._sums: dict[str, float] = {}
        self._inner: list[float] = []
        self._began = time.perf_counter(), time.process_time()

    def start(self) -> None:
        """Begin the first iteration now."""
        self._began = time.perf_counter(), time.process_time()

    def finish(self) -> None:
        """End an iteration, and begin the next."""
        now = time.perf_counter(), time.process_time()
        self.wall.append(now[0] - self._began[0])
        self.cpu.append(now[1] - self._began[1])
        self._sums[UPDATE] = self.cpu[-1] - sum(self._sums.values())
        for name, seconds in self._sums.items():
            self.parts.setdefault(name, []).append(seconds)
        self._sums, self._began = {}, now

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block as a part of the iteration; what no part covers is the update."""
        began = time.process_time()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = time.process_time() - began
            self._sums[name] = self._sums.get(name, 0.0) + spent - self._inner.pop()
            if self._inner:
                self._inner[-1] += spent

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, counted as a part."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return call
