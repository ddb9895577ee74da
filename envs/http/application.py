"""Endpoints as an ASGI application: every failure is JSON with a "detail", every request has a deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.errors import CreditflowError, MissingExtraError
from creditflow.envs.http.batcher import Batcher, OverloadedError
from creditflow.envs.http.bodies import BadRequestError, BodyRoom
from creditflow.envs.http.callers import CallerCheck

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["application", "json_answer"]

_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def json_answer(content: Any) -> Response:
    """Plain values as JSON in ASCII: texts may hold lone surrogates, which UTF-8 cannot.

    Raises:
        ValueError: a number that is none.
    """
    from starlette.responses import Response

    return Response(_ENCODER.encode(content).encode("ascii"), media_type="application/json")


def application(
    endpoints: Sequence[tuple[str, str, Callable[[Request], Awaitable[Response]]]],
    batcher: Batcher[Any, Any],
    what: str,
    *,
    hosts: Sequence[str] = (),
    pages: bool = False,
) -> Starlette:
    """An ASGI application whose failures are JSON with a "detail".

    Args:
        endpoints: method, path and function of each.
        batcher: started and stopped with it.
        what: is served, in a word: "search".
        hosts: names that it answers to besides this machine's own.
        pages: it serves pages for a person; see ``CallerCheck``.

    Raises:
        MissingExtraError: starlette is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
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

    async def bad_request(_: Request, error: BadRequestError) -> Response:
        return JSONResponse({"detail": [{"type": error.kind, "loc": list(error.loc), "msg": str(error)}]}, error.status)

    async def not_served(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)

    def failing(status: int, text: str = "", **headers: str) -> Callable[..., Awaitable[Response]]:
        async def answer(_: Request, error: Exception) -> Response:
            return JSONResponse({"detail": text or str(error)[:200]}, status, headers)

        return answer

    handlers: dict[Any, Any] = {
        BadRequestError: bad_request,
        HTTPException: not_served,
        OverloadedError: failing(503, f"too many wait for the {what} server; try again", **{"Retry-After": "1"}),
        TimeoutError: failing(504, f"the {what} server took too long"),
        ClientDisconnect: failing(400, "the client is gone"),
        CreditflowError: failing(502),
        Exception: failing(500, f"the {what} server met an error of its own"),
    }

    def timed(function: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def within(request: Request) -> Response:
            async with asyncio.timeout(batcher.limits.seconds):  # a body that drips in counts too
                return await function(request)

        return within

    routes = [Route(path, timed(function), methods=[method]) for method, path, function in endpoints]
    callers = Middleware(CallerCheck, hosts=hosts, pages=pages)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers, middleware=[callers])
    app.router.redirect_slashes = False  # a redirection would repeat what the client says of our name
    app.state.body_room = BodyRoom()
    return app
