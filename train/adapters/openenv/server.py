"""The server: OpenEnv's own routes, for callers of this machine or with a key, within limits of sessions and messages."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.types import ConcurrencyConfig
from starlette.responses import JSONResponse

from creditflow.envs.errors import CreditflowError, EpisodeError, ServiceError, UnknownTaskError
from creditflow.envs.http.bodies import require_positive
from creditflow.envs.http.callers import rejection
from creditflow.train.adapters.openenv.client import FullObservation, PlayAction, PlayState, TextObservation
from creditflow.train.adapters.openenv.environment import Served, ServedEnv
from creditflow.train.adapters.releases import OPENENV

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard", "SessionLimits", "make_app"]


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of a server.

    Attributes:
        sessions: most simultaneous sessions, each with a separate environment.
        idle_seconds: OpenEnv ends a session after this many seconds in which it was not played.
        message: most bytes of a message, which uvicorn bounds, or of a request's body.
    """

    sessions: int = 64
    idle_seconds: float = 600.0
    message: int = 2**20

    def __post_init__(self) -> None:
        require_positive(self, "an environment server")


class Guard:
    """An ASGI application around OpenEnv's, which answers what pages of other sites and clients of large bodies send.

    Args:
        app: OpenEnv's application.
        limits: limits.
    """

    def __init__(self, app: Any, limits: SessionLimits) -> None:
        self._app: ASGIApp = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or the life of the application."""
        refused = None
        if scope["type"] != "lifespan":
            refused = rejection(scope) or self._oversized(scope)
        if refused is not None:
            await JSONResponse({"detail": refused[1]}, refused[0], {"Connection": "close"})(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _oversized(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason if a request's body is too large, or of a length that it does not name."""
        headers = dict(scope["headers"])
        if b"transfer-encoding" in headers:
            return 411, "a body needs a Content-Length"
        if int(headers.get(b"content-length", 0)) > self.limits.message:
            return 413, f"a body has at most {self.limits.message} bytes"
        return None

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket to its end; that its client has left is no error of the server's."""
        gone = False

        async def watched(message: Message) -> None:
            nonlocal gone
            try:
                await send(message)
            # the client left or did not read within the time of a ping (OSError), or sent what closed the connection (RuntimeError)
            except (OSError, RuntimeError):
                gone = True
                raise

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if not gone:  # OpenEnv answers a failed answer with another one, which fails too
                raise


STATUS: dict[type[Exception], int] = {EpisodeError: 409, UnknownTaskError: 404, ServiceError: 502, CreditflowError: 422}


def make_app(served: Served, limits: SessionLimits | None = None) -> Guard:
    """Make the ASGI application that serves an environment.

    Args:
        served: what to serve.
        limits: limits of sessions and messages; None for the defaults.

    Raises:
        MissingExtraError: OpenEnv is not installed.
        ConfigError: an untested release of it is installed.
    """
    OPENENV.require()
    limits = limits or SessionLimits()
    app = create_app(
        functools.partial(ServedEnv, served),
        PlayAction,
        FullObservation if served.observation == "full" else TextObservation,
        env_name=served.name,
        state_cls=PlayState,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=limits.sessions, session_timeout=limits.idle_seconds),
    )
    for kind, status in STATUS.items():
        app.add_exception_handler(kind, _respond(status))
    app.add_exception_handler(Exception, _respond(500, "internal error of the environment server"))
    return Guard(app, limits)


def _respond(status: int, text: str = "") -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(_: Any, error: Exception) -> Response:
        return JSONResponse({"detail": text or str(error)}, status)

    return respond
