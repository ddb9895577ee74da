"""``Guard``: limits around OpenEnv's application, so that no client can exhaust the server or puzzle over an error.

OpenEnv itself limits the number of sessions. It does not limit the size of a request or how long a WebSocket may idle (its
own timeout ends the session of an idle WebSocket, but lets the client go on outside the count), nor who may call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from creditflow.envs.http.bodies import TIMEOUT, BadRequestError, BodyMemory, read_body
from creditflow.envs.http.callers import rejection
from creditflow.train.adapters.openenv.messages import json_fault
from creditflow.train.adapters.openenv.session import Session, SessionLimits

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard"]


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
        self._state = app.state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or the life of the application."""
        if scope["type"] == "lifespan":
            self._state.body_memory = BodyMemory()  # created here, because its timer belongs to this event loop
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
            except OSError:  # the client closed the connection, or did not read within the time of a ping
                gone = True
                raise

        try:
            await self._app(scope, Session(receive, send, self.limits).receive, watched)
        except Exception:
            if not gone:  # OpenEnv answers a failed answer with another one, which fails too
                raise

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body within the limits before OpenEnv sees the request."""
        scope["app"], begun = self._app, False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        async def answer(status: int, detail: str) -> None:
            if not begun:
                await JSONResponse({"detail": detail}, status)(scope, receive, send)

        try:
            async with asyncio.timeout(self.limits.seconds) as scope[TIMEOUT]:
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
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return parts.pop() if parts else await receive()

    return replay
