"""Request bodies, read within limits: bytes and seconds of each, and bytes of all unfinished bodies together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.reading.json_text import decode_json

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["BODY_SECONDS", "BadRequestError", "BodyMemory", "read_body", "read_json", "with_deadline"]

TIMEOUT: Final = "creditflow.timeout"  # key of a request's ASGI scope for its deadline, an asyncio.Timeout
BODY: Final = "creditflow.body"  # key of a request's ASGI scope for its Body
BODY_SECONDS: Final = 20.0  # from the end of a request's header to the end of its body
MAX_UNFINISHED: Final = 64 * 2**20  # bytes of unfinished bodies, over all connections
MIN_BODIES: Final = 8  # bodies of full size that must fit at least


class BadRequestError(Exception):
    """A malformed request.

    Args:
        kind: machine-readable type, with pydantic's name if it has one.
        loc: path to the error, beginning with "body".
        message: human-readable message.
        status: status code of the response.
    """

    def __init__(self, kind: str, loc: tuple[str | int, ...], message: str, status: int = 422) -> None:
        super().__init__(message)
        self.kind, self.loc, self.status = kind, loc, status


class Body:
    """An unfinished body.

    Args:
        timeout: timeout of the request; it expires early if the body is late or its memory is needed.

    Attributes:
        timeout: as given.
        ends: time of the event loop by which the body must have arrived.
        size: bytes received so far.
        dropped: whether the request was ended because of its body.
    """

    __slots__ = ("dropped", "ends", "size", "timeout")

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self.timeout, self.size, self.dropped = timeout, 0, False
        self.ends = asyncio.get_running_loop().time() + BODY_SECONDS


class BodyMemory:
    """The unfinished bodies of a server: each has ``BODY_SECONDS``, and when their memory is full, the oldest one is dropped.

    Otherwise clients that send most of a body and then stall would occupy the size of a body per connection. As all bodies
    have the same time, the oldest is the first to be late, so one timer suffices for all.

    Attributes:
        limit, used: maximum and present size of all unfinished bodies, in bytes.
    """

    def __init__(self) -> None:
        self.limit, self.used = MAX_UNFINISHED, 0
        self._unfinished: dict[Body, None] = {}  # in order of arrival
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, timeout: asyncio.Timeout) -> Body:
        """Register the body of a request with this timeout."""
        body = Body(timeout)
        self._unfinished[body] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(body.ends, self._drop_late)
        return body

    def end(self, body: Body) -> None:
        """Free the memory of a body."""
        if body in self._unfinished:
            del self._unfinished[body]
            self.used -= body.size

    def grow(self, body: Body, size: int) -> None:
        """Count ``size`` more bytes of a body."""
        if body.dropped:
            return
        body.size += size
        self.used += size
        while self.used > self.limit:
            self._drop(next(iter(self._unfinished)))

    def _drop(self, body: Body) -> None:
        self.end(body)
        if not body.timeout.expired():
            body.dropped = True
            body.timeout.reschedule(asyncio.get_running_loop().time())

    def _drop_late(self) -> None:
        """Drop the bodies whose time is over, and set the timer for the next one."""
        loop, self._timer = asyncio.get_running_loop(), None
        while self._unfinished:
            oldest = next(iter(self._unfinished))
            if oldest.ends > loop.time():
                self._timer = loop.call_at(oldest.ends, self._drop_late)
                return
            self._drop(oldest)


def with_deadline(
    function: Callable[[Request], Awaitable[Response]], seconds: float
) -> Callable[[Request], Awaitable[Response]]:
    """Wrap an endpoint so that it responds within ``seconds``, including the time in which the body arrives.

    The returned endpoint raises ``TimeoutError`` at the deadline, and ``BadRequestError`` if the body does not arrive in time.
    """

    async def within(request: Request) -> Response:
        scope = request.scope
        try:
            async with asyncio.timeout(seconds) as scope[TIMEOUT]:
                return await function(request)
        except TimeoutError as error:
            if BODY in scope and scope[BODY].dropped:
                raise _late_body() from error
            raise

    return within


def _late_body() -> BadRequestError:
    return BadRequestError("too_slow", ("body",), "the body did not arrive in time", 408)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request, of at most ``limit`` bytes. The endpoint must be wrapped by ``with_deadline``.

    Raises:
        BadRequestError: the body is larger, or does not arrive in time.
    """
    memory: BodyMemory = request.app.state.body_memory
    memory.limit = max(memory.limit, MIN_BODIES * limit)
    request.scope[BODY] = body = memory.begin(request.scope[TIMEOUT])
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise BadRequestError("too_large", ("body",), f"a body has at most {limit} bytes", 413)
            memory.grow(body, len(chunk))
            chunks.append(chunk)
    finally:
        memory.end(body)
    if body.dropped:
        raise _late_body()
    return b"".join(chunks)


async def read_json(request: Request, limit: int) -> Any:
    """Return the parsed JSON body of a request, of at most ``limit`` bytes.

    Raises:
        BadRequestError: a larger body, one that does not arrive in time, invalid JSON, or a repeated key.
    """
    body = await read_body(request, limit)
    try:
        return decode_json(body.decode(json.detect_encoding(body), "surrogatepass"), locate=False)
    except ValueError as error:
        raise BadRequestError("json_invalid", ("body",), f"the body must be JSON: {str(error)[:80]}") from error
