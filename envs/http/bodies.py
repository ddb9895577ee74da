"""Request bodies, read within limits: bytes and seconds of each, and bytes of all unfinished bodies together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.reading.json_text import decode_json

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["BODY_SECONDS", "BadRequestError", "BodyMemory", "read_body", "read_json"]

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


class BodyMemory:
    """The memory of unfinished bodies. When it is full, the oldest one is dropped.

    Otherwise clients that send most of a body and then stall would occupy the size of a body per connection.

    Attributes:
        limit, used: bytes.
    """

    def __init__(self) -> None:
        self.limit, self.used = MAX_UNFINISHED, 0
        self._unfinished: dict[asyncio.Timeout, int] = {}  # in order of arrival

    @contextmanager
    def entry(self, timeout: asyncio.Timeout) -> Iterator[None]:
        """Register a body with its timeout, which is expired early if the memory is needed."""
        self._unfinished[timeout] = 0
        try:
            yield
        finally:
            self.used -= self._unfinished.pop(timeout, 0)

    def grow(self, timeout: asyncio.Timeout, size: int) -> None:
        """Count ``size`` more bytes of the body with this timeout."""
        if timeout not in self._unfinished:  # already dropped
            return
        self._unfinished[timeout] += size
        self.used += size
        while self.used > self.limit:
            oldest = next(iter(self._unfinished))
            self.used -= self._unfinished.pop(oldest)
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request, of at most ``limit`` bytes.

    Raises:
        BadRequestError: a larger body, or one that does not arrive in time.
    """
    memory: BodyMemory = request.app.state.body_memory
    memory.limit = max(memory.limit, MIN_BODIES * limit)
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS) as timeout:
            with memory.entry(timeout):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise BadRequestError("too_large", ("body",), f"a body has at most {limit} bytes", 413)
                    memory.grow(timeout, len(part))
                    parts.append(part)
    except TimeoutError as error:
        if not timeout.expired():
            raise  # the deadline of the whole request
        raise BadRequestError("too_slow", ("body",), "the body did not arrive in time", 408) from error
    return b"".join(parts)


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
