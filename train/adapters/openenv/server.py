"""The server: OpenEnv's own routes behind limits of sessions and messages, with answers to malformed messages."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.types import ConcurrencyConfig, WSErrorCode, WSErrorResponse
from starlette.requests import Request
from starlette.responses import JSONResponse

from creditflow.envs.errors import CreditflowError, EpisodeError, ServiceError, UnknownTaskError
from creditflow.envs.http.bodies import BadRequestError, read_body
from creditflow.envs.http.callers import rejection
from creditflow.envs.http.limits import require_positive
from creditflow.envs.reading.json_text import decode_json
from creditflow.train.adapters.openenv.client import FullObservation, PlayAction, PlayState, TextObservation
from creditflow.train.adapters.openenv.environment import Served, ServedEnv
from creditflow.train.adapters.releases import OPENENV

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = [
    "Guard",
    "Session",
    "SessionLimits",
    "error_text",
    "json_fault",
    "make_app",
    "message_fault",
]


TYPES: Final = ("reset", "step", "state", "close", "mcp")


def json_fault(text: str) -> tuple[Any, str]:
    """Return the value of a JSON text and "", or None and why it is rejected."""
    try:
        value = decode_json(text, locate=False)
        if "\\u" in text:  # an escape, so perhaps half a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None, "a text contains half of a surrogate pair"
    except ValueError as error:
        return None, str(error)[:200]
    except RecursionError:
        return None, "nested too deeply"
    return value, ""


def message_fault(message: dict[str, Any], limit: int) -> tuple[str, WSErrorCode] | None:
    """Return why a WebSocket message is rejected, and OpenEnv's code for that; None if its routes may read it.

    Args:
        message: event of the ASGI server.
        limit: most bytes of a message.
    """
    text = message.get("text")
    if text is None:
        return "a message is a JSON text, this one is binary", WSErrorCode.INVALID_JSON
    if len(text) > limit:
        return f"a message has at most {limit} bytes", WSErrorCode.VALIDATION_ERROR
    value, fault = json_fault(text)
    if fault:
        return f"a message must be JSON: {fault}", WSErrorCode.INVALID_JSON
    if not isinstance(value, dict):
        return f"a message is an object, got {type(value).__name__}", WSErrorCode.VALIDATION_ERROR
    if value.get("type") not in TYPES:
        return f"the type of a message is one of {', '.join(TYPES)}", WSErrorCode.UNKNOWN_TYPE
    return None


def error_text(message: str, code: WSErrorCode) -> str:
    """Return an error in OpenEnv's format."""
    return str(WSErrorResponse(data={"message": message, "code": code}).model_dump_json())


GOING_AWAY: Final = 1001
POLICY: Final = 1008


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of a server.

    Attributes:
        sessions: most simultaneous sessions, each with a separate environment.
        idle_seconds: a session is closed after this many seconds without a message from its client.
        seconds: time limit of an HTTP request.
        message: most bytes of a message or of a request's body.
        faults: rejected messages in a row after which a session is closed.
    """

    sessions: int = 64
    idle_seconds: float = 600.0
    seconds: float = 60.0
    message: int = 2**20
    faults: int = 100

    def __post_init__(self) -> None:
        require_positive(self, "an environment server")


class Session:
    """One WebSocket.

    Args:
        receive, send: those of the ASGI server.
        limits: limits.
    """

    def __init__(self, receive: Receive, send: Send, limits: SessionLimits) -> None:
        self._receive, self._send, self._limits, self._faults = receive, send, limits, 0

    async def receive(self) -> Message:
        """Return the next message that OpenEnv may read."""
        while True:
            try:
                async with asyncio.timeout(self._limits.idle_seconds):
                    message = await self._receive()
            except TimeoutError:
                return await self._close(GOING_AWAY, f"idle for {self._limits.idle_seconds:g} s: the session is closed")
            if message["type"] != "websocket.receive":
                return message
            fault = message_fault(dict(message), self._limits.message)
            if fault is None:
                self._faults = 0
                return message
            self._faults += 1
            if self._faults >= self._limits.faults:
                return await self._close(POLICY, f"{self._faults} malformed messages in a row")
            await self._send({"type": "websocket.send", "text": error_text(*fault)})

    async def _close(self, code: int, reason: str) -> Message:
        await self._send({"type": "websocket.close", "code": code, "reason": reason})
        return {"type": "websocket.disconnect", "code": code, "reason": reason}


class Guard:
    """An ASGI application around OpenEnv's.

    Args:
        app: OpenEnv's application.
        limits: limits.
        hosts: host names that are accepted besides this machine's own; "*": any.
    """

    def __init__(self, app: Any, limits: SessionLimits, hosts: Sequence[str] = ()) -> None:
        self._app: ASGIApp = app
        self.limits, self._hosts = limits, frozenset(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or the life of the application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refused = rejection(scope, self._hosts)
        if refused is not None:
            await JSONResponse({"detail": refused[1]}, refused[0], {"Connection": "close"})(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._socket(scope, receive, send)

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
            await self._app(scope, Session(receive, send, self.limits).receive, watched)
        except Exception:
            if not gone:  # OpenEnv answers a failed answer with another one, which fails too
                raise

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body within the limits before OpenEnv sees the request."""
        scope["app"], answering = self._app, False

        async def watched(message: Message) -> None:
            nonlocal answering
            answering = True
            await send(message)

        async def answer(status: int, detail: str) -> None:
            if not answering:
                await JSONResponse({"detail": detail}, status)(scope, receive, send)

        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await read_body(Request(scope, receive), self.limits.message)
                _, fault = json_fault(body.decode("utf-8", "replace")) if body else (None, "")
                if fault:
                    await answer(422, f"the body must be JSON: {fault}")
                    return
                await self._app(scope, _replayed(body, receive), watched)
        except BadRequestError as error:
            await answer(error.status, str(error))
        except TimeoutError:
            await answer(504, f"the server took more than {self.limits.seconds:g} s")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that first gives the body."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


STATUS: dict[type[Exception], int] = {EpisodeError: 409, UnknownTaskError: 404, ServiceError: 502, CreditflowError: 422}


def make_app(served: Served, limits: SessionLimits | None = None, hosts: Sequence[str] = ()) -> Guard:
    """Make the ASGI application that serves an environment.

    Args:
        served: what to serve.
        limits: limits of sessions and messages; None for the defaults.
        hosts: host names that are accepted besides this machine's own; "*": any.

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
        # sessions of /mcp, which have no connection that could be seen idle, are ended by OpenEnv, and later than ours
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=limits.sessions, session_timeout=limits.idle_seconds + limits.seconds
        ),
    )
    for kind, status in STATUS.items():
        app.add_exception_handler(kind, _respond(status))
    app.add_exception_handler(Exception, _respond(500, "internal error of the environment server"))
    return Guard(app, limits, hosts)


def _respond(status: int, text: str = "") -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(_: Any, error: Exception) -> Response:
        return JSONResponse({"detail": text or str(error)}, status)

    return respond
