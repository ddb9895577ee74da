"""Requests that wait together are answered together, in one thread beside the event loop, in a bounded queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["BatchLimits", "Batcher", "OverloadedError"]

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class BatchLimits(Protocol):
    """How much a ``Batcher`` takes."""

    @property
    def pending(self) -> int:
        """Parts that wait or run, over all requests."""
        ...

    @property
    def batch(self) -> int:
        """Parts answered in one go, at least one request."""
        ...

    @property
    def seconds(self) -> float:
        """From arrival to answer."""
        ...


class OverloadedError(Exception):
    """Too many parts wait."""


class Batcher(Generic[RequestT, ResponseT]):
    """Answers requests in batches in one thread, first come first served.

    Args:
        answer: one result for each request of a batch; an exception as a result fails that request alone.
        limits: what it takes.

    Attributes:
        pending, served, refused: parts of requests.
    """

    def __init__(
        self, answer: Callable[[Sequence[RequestT]], Sequence[ResponseT | Exception]], limits: BatchLimits
    ) -> None:
        self._answer, self.limits = answer, limits
        self.pending = self.served = self.refused = 0
        self._pool = ThreadPoolExecutor(1, "serve")
        self._queue: asyncio.Queue[tuple[RequestT, int, asyncio.Future[ResponseT]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to answer; inside the event loop."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Answer nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def ask(self, asked: RequestT, parts: int) -> ResponseT:
        """The answer to one request that counts as ``parts`` parts.

        Raises:
            OverloadedError: too many parts wait already.
            TimeoutError: it took too long.
        """
        future: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()
        with self._waiting(parts):
            self._queue.put_nowait((asked, parts, future))
            given = await asyncio.wait_for(future, self.limits.seconds)
        self.served += parts
        return given

    async def call(self, function: Callable[[], Any], parts: int) -> Any:
        """Anything else that counts as ``parts`` parts, in the same thread.

        Raises:
            OverloadedError, TimeoutError: as ``ask``.
        """
        with self._waiting(parts):
            loop = asyncio.get_running_loop()
            return await asyncio.wait_for(loop.run_in_executor(self._pool, function), self.limits.seconds)

    @contextmanager
    def _waiting(self, parts: int) -> Iterator[None]:
        if self.pending + parts > self.limits.pending:
            self.refused += parts
            raise OverloadedError
        self.pending += parts
        try:
            yield
        finally:
            self.pending -= parts

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            size = batch[0][1]
            while size < self.limits.batch and not self._queue.empty():
                batch.append(self._queue.get_nowait())
                size += batch[-1][1]
            batch = [entry for entry in batch if not entry[2].done()]  # the caller has given up
            if not batch:
                continue
            asked = [one for one, _, _ in batch]
            [found] = await asyncio.gather(
                loop.run_in_executor(self._pool, self._answer, asked), return_exceptions=True
            )
            answers = [found] * len(batch) if isinstance(found, BaseException) else found
            for (_, _, future), given in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(given, BaseException):
                    future.set_exception(given)
                else:
                    future.set_result(given)
