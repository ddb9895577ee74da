"""What our HTTP servers share: bounded bodies, batches in one thread, clear refusals, listening on loopback.

A request is read no further than a limit, waits in a bounded queue, is answered together with those that wait beside
it, in one thread beside the event loop, and gets 503 or 504 where that is too much or too slow. Needs ``[serve]``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from creditflow.envs.errors import ConfigError, CreditflowError, MissingExtraError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

__all__ = ["BadRequestError", "BatchLimits", "Batcher", "application", "listen", "read_json"]

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
AskedT = TypeVar("AskedT")
GivenT = TypeVar("GivenT")


class BadRequestError(Exception):
    """A request that cannot be served.

    Args:
        kind: machine-readable type, as pydantic names it where it has a name.
        loc: path to what is wrong, beginning with "body".
        message: for people.
        status: of the answer.
    """

    def __init__(self, kind: str, loc: tuple[str | int, ...], message: str, status: int = 422) -> None:
        super().__init__(message)
        self.kind, self.loc, self.status = kind, loc, status


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


class Batcher(Generic[AskedT, GivenT]):
    """Answers requests in batches in one thread, first come first served.

    Args:
        answer: one result for each request of a batch; an exception as a result fails that request alone.
        limits: what it takes.

    Attributes:
        pending, served, refused: parts of requests.
    """

    def __init__(self, answer: Callable[[Sequence[AskedT]], Sequence[GivenT | Exception]], limits: BatchLimits) -> None:
        self._answer, self.limits = answer, limits
        self.pending = self.served = self.refused = 0
        self._pool = ThreadPoolExecutor(1, "serve")
        self._queue: asyncio.Queue[tuple[AskedT, int, asyncio.Future[GivenT]]] = asyncio.Queue()
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

    async def ask(self, asked: AskedT, parts: int) -> GivenT:
        """The answer to one request that counts as ``parts`` parts.

        Raises:
            OverloadedError: too many parts wait already.
            TimeoutError: it took too long.
        """
        future: asyncio.Future[GivenT] = asyncio.get_running_loop().create_future()
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


def application(
    endpoints: Sequence[tuple[str, str, Callable[[Request], Awaitable[JSONResponse]]]],
    batcher: Batcher[Any, Any],
    what: str,
) -> Starlette:
    """An ASGI application whose failures are JSON with a "detail".

    Args:
        endpoints: method, path and function of each.
        batcher: started and stopped with it.
        what: is served, in a word: "search".

    Raises:
        MissingExtraError: starlette is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError(f"starlette, which the {what} server runs on,", "serve") from error

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        batcher.start()
        yield
        await batcher.stop()

    async def bad_request(_: Request, error: BadRequestError) -> JSONResponse:
        return JSONResponse({"detail": [{"type": error.kind, "loc": list(error.loc), "msg": str(error)}]}, error.status)

    def failing(status: int, text: str = "", **headers: str) -> Callable[..., Awaitable[JSONResponse]]:
        async def answer(_: Request, error: Exception) -> JSONResponse:
            return JSONResponse({"detail": text or str(error)[:200]}, status, headers)

        return answer

    handlers: dict[Any, Any] = {
        BadRequestError: bad_request,
        OverloadedError: failing(503, f"too many wait for the {what} server; try again", **{"Retry-After": "1"}),
        TimeoutError: failing(504, f"the {what} server took too long"),
        ClientDisconnect: failing(400, "the client is gone"),
        CreditflowError: failing(502),
        Exception: failing(500, f"the {what} server met an error of its own"),
    }

    def timed(function: Callable[[Request], Awaitable[JSONResponse]]) -> Callable[[Request], Awaitable[JSONResponse]]:
        async def within(request: Request) -> JSONResponse:
            async with asyncio.timeout(batcher.limits.seconds):  # a body that drips in counts too
                return await function(request)

        return within

    routes = [Route(path, timed(function), methods=[method]) for method, path, function in endpoints]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)


async def read_json(request: Request, most: int) -> Any:
    """The JSON body of at most so many bytes, read no further.

    Raises:
        BadRequestError: it is larger, or no JSON.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise BadRequestError("too_large", ("body",), f"a body has at most {most} bytes", 413)
        parts.append(part)
    try:
        return json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise BadRequestError("json_invalid", ("body",), f"the body must be JSON: {str(error)[:80]}") from error


def listen(make: Callable[[], Starlette], host: str, port: int, what: str) -> None:
    """Serve until interrupted; what is wrong with the address is told before anything is made.

    Raises:
        ConfigError: an impossible port.
        MissingExtraError: uvicorn is not installed.
    """
    if not 0 < port < 65536:
        raise ConfigError(f"--port must be from 1 to 65535, got {port}")
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError(f"uvicorn, which the {what} server runs on,", "serve") from error
    app = make()
    if host not in LOOPBACK:
        print(f"warning: listening on {host}: anybody who reaches this machine can use it", file=sys.stderr)
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_keep_alive=30, limit_concurrency=512)
