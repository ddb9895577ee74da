"""Work of requests in one thread next to the event loop, one after the other, of which a bounded number waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["OverloadedError", "Worker"]

ResultT = TypeVar("ResultT")


class OverloadedError(Exception):
    """Too many items wait."""


class Worker:
    """Runs functions in one thread, first come, first served.

    Args:
        pending: most items that wait or run, over all requests.
        seconds: deadline of a request, from arrival to response.

    Attributes:
        pending, served, rejected: numbers of items.
    """

    def __init__(self, pending: int, seconds: float) -> None:
        self.limit, self.seconds = pending, seconds
        self.pending = self.served = self.rejected = 0
        self._pool = ThreadPoolExecutor(1, "serve")

    def state(self) -> dict[str, int]:
        """What a server reports of its queue: the numbers of items that are pending, were served, or were rejected."""
        return {"pending": self.pending, "served": self.served, "rejected": self.rejected}

    def stop(self) -> None:
        """Drop what waits."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, function: Callable[[], ResultT], items: int) -> ResultT:
        """Return the result of a function, which counts as ``items`` items.

        Raises:
            OverloadedError: too many items wait.
            TimeoutError: the deadline has passed.
        """
        if self.pending + items > self.limit:
            self.rejected += items
            raise OverloadedError
        self.pending += items
        try:
            async with asyncio.timeout(self.seconds):
                result = await asyncio.get_running_loop().run_in_executor(self._pool, function)
        finally:
            self.pending -= items
        self.served += items
        return result
