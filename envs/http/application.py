"""ASGI applications of endpoints: every error response is JSON with a "detail", every request has a deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.errors import CreditflowError, MissingExtraError
from creditflow.envs.http.bodies import BadRequestError
from creditflow.envs.http.callers import CallerCheck
from creditflow.envs.http.worker import OverloadedError, Worker

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["application", "json_response"]

_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def json_response(content: Any) -> Response:
    """Return plain data as a JSON response in ASCII, since strings may contain lone surrogates.

    Raises:
        ValueError: a non-finite number.
    """
    from starlette.responses import Response

    return Response(_ENCODER.encode(content).encode("ascii"), media_type="application/json")


def application(
    endpoints: Sequence[tuple[str, str, Callable[[Request], Awaitable[Response]]]], worker: Worker, what: str
) -> Starlette:
    """Make an ASGI application whose error responses are JSON with a "detail".

    Args:
        endpoints: (method, path, function) of each endpoint.
        worker: has the deadline of requests, and is stopped with the application.
        what: name of the service in messages, such as "search".

    Raises:
        MissingExtraError: starlette is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError(f"starlette, which the {what} server runs on,", "serve") from error

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        worker.stop()

    def within(function: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            async with asyncio.timeout(worker.seconds):
                return await function(request)

        return answer

    routes = [Route(path, within(function), methods=[method]) for method, path, function in endpoints]
    callers = Middleware(CallerCheck)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=_error_handlers(what), middleware=[callers])
    app.router.redirect_slashes = False  # a redirect would repeat the host name that the client sent
    return app


def _error_handlers(what: str) -> dict[Any, Any]:
    """Return the function from each exception class to a JSON response."""
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse

    async def bad_request(_: Request, error: BadRequestError) -> Response:
        return JSONResponse({"detail": [{"type": error.kind, "loc": list(error.loc), "msg": str(error)}]}, error.status)

    async def http_error(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)

    def error_handler(status: int, text: str = "", **headers: str) -> Callable[..., Awaitable[Response]]:
        async def respond(_: Request, error: Exception) -> Response:
            return JSONResponse({"detail": text or str(error)[:200]}, status, headers)

        return respond

    return {
        BadRequestError: bad_request,
        HTTPException: http_error,
        OverloadedError: error_handler(503, f"the {what} server is overloaded; try again", **{"Retry-After": "1"}),
        TimeoutError: error_handler(504, f"the {what} server took too long"),
        ClientDisconnect: error_handler(400, "the client has disconnected"),
        CreditflowError: error_handler(502),
        Exception: error_handler(500, f"internal error of the {what} server"),
    }
