"""Batching: requests in a bounded queue are processed together, in one thread next to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["BatchLimits", "Batcher", "OverloadedError"]

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class BatchLimits(Protocol):
    """Limits of a ``Batcher``."""

    @property
    def pending(self) -> int:
        """Most items that are queued or running, over all requests."""
        ...

    @property
    def batch(self) -> int:
        """Most items in one batch, which has at least one request."""
        ...

    @property
    def seconds(self) -> float:
        """Deadline of a request, from arrival to response."""
        ...


class OverloadedError(Exception):
    """Too many items are queued."""


class Batcher(Generic[RequestT, ResponseT]):
    """Processes requests in batches in one thread, first come, first served.

    Args:
        process: returns one result per request of a batch; an exception as a result fails only that request.
        limits: limits of the queue.

    Attributes:
        pending, served, rejected: numbers of items.
    """

    def __init__(
        self, process: Callable[[Sequence[RequestT]], Sequence[ResponseT | Exception]], limits: BatchLimits
    ) -> None:
        self._process, self.limits = process, limits
        self.pending = self.served = self.rejected = 0
        self._pool = ThreadPoolExecutor(1, "serve")
        self._queue: asyncio.Queue[tuple[RequestT, int, asyncio.Future[ResponseT]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start processing; called inside the event loop."""
        self._task = asyncio.create_task(self._run())

    def state(self) -> dict[str, int]:
        """What a server reports of its queue: the numbers of items that are pending, were served, or were rejected."""
        return {"pending": self.pending, "served": self.served, "rejected": self.rejected}

    async def stop(self) -> None:
        """Stop processing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def submit(self, request: RequestT, items: int) -> ResponseT:
        """Return the response to a request of ``items`` items.

        Raises:
            OverloadedError: too many items are queued.
            TimeoutError: the deadline has passed.
        """
        future: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()
        self._add(items)
        try:
            self._queue.put_nowait((request, items, future))
            async with asyncio.timeout(self.limits.seconds):
                response = await future
        finally:
            self.pending -= items
        self.served += items
        return response

    async def call(self, function: Callable[[], Any], items: int) -> Any:
        """Run any other function in the same thread; it counts as ``items`` items.

        Raises:
            OverloadedError, TimeoutError: as ``submit``.
        """
        self._add(items)
        try:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(self.limits.seconds):
                return await loop.run_in_executor(self._pool, function)
        finally:
            self.pending -= items

    def _add(self, items: int) -> None:
        if self.pending + items > self.limits.pending:
            self.rejected += items
            raise OverloadedError
        self.pending += items

    async def _run(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        while True:
            batch = [await self._queue.get()]
            size = batch[0][1]
            while size < self.limits.batch and not self._queue.empty():
                batch.append(self._queue.get_nowait())
                size += batch[-1][1]
            batch = [entry for entry in batch if not entry[2].done()]  # the caller has disconnected
            if not batch:
                continue
            requests = [request for request, _, _ in batch]
            results: Sequence[ResponseT | BaseException]
            try:
                results = await loop.run_in_executor(self._pool, self._process, requests)
            except BaseException as error:  # whatever the function raises answers its requests
                if task is not None and task.cancelling():  # by ``stop``
                    raise
                results = [error] * len(batch)
            for (_, _, future), response in zip(batch, results, strict=True):
                if future.done():
                    continue
                if isinstance(response, BaseException):
                    future.set_exception(response)
                else:
                    future.set_result(response)
