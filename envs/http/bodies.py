"""Request bodies, read no further and no longer than their limits: bytes of one, seconds of one, bytes of all together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["BODY_SECONDS", "BadRequestError", "BodyRoom", "read_body", "read_json"]

BODY_SECONDS: Final = 20.0  # from the end of a request's header to the end of its body
ROOM: Final = 64 * 2**20  # bytes of bodies that are still coming, over all connections
ROOMY: Final = 8  # and at least this many bodies of full size


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


class BodyRoom:
    """The memory of bodies that are still coming. When it is full, the one that has been coming longest is given up.

    Clients that send most of a body and then stall would otherwise hold a body's size for every connection.

    Attributes:
        most, held: bytes.
    """

    def __init__(self) -> None:
        self.most, self.held = ROOM, 0
        self._coming: dict[asyncio.Timeout, int] = {}  # in order of arrival

    @contextmanager
    def entry(self, clock: asyncio.Timeout) -> Iterator[None]:
        """A body that comes under this clock, which is stopped when its room is needed."""
        self._coming[clock] = 0
        try:
            yield
        finally:
            self.held -= self._coming.pop(clock, 0)

    def grow(self, clock: asyncio.Timeout, size: int) -> None:
        """So many bytes more have come under this clock."""
        if clock not in self._coming:  # given up already
            return
        self._coming[clock] += size
        self.held += size
        while self.held > self.most:
            oldest = next(iter(self._coming))
            self.held -= self._coming.pop(oldest)
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())


async def read_body(request: Request, most: int) -> bytes:
    """The body of at most so many bytes, read no further.

    Raises:
        BadRequestError: it is larger, or does not come in time.
    """
    room: BodyRoom = request.app.state.body_room
    room.most = max(room.most, ROOMY * most)
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS) as clock:
            with room.entry(clock):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise BadRequestError("too_large", ("body",), f"a body has at most {most} bytes", 413)
                    room.grow(clock, len(part))
                    parts.append(part)
    except TimeoutError as error:
        if not clock.expired():
            raise  # the clock of the whole request
        raise BadRequestError("too_slow", ("body",), "the body did not come in time", 408) from error
    return b"".join(parts)


async def read_json(request: Request, most: int) -> Any:
    """The JSON body of at most so many bytes, read no further.

    Raises:
        BadRequestError: it is larger, does not come in time, is no JSON, or names a key of an object twice.
    """
    body = await read_body(request, most)
    try:
        return _DECODER.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise BadRequestError("json_invalid", ("body",), f"the body must be JSON: {str(error)[:80]}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object names a key twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)
