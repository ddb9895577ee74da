"""One WebSocket: its limits, answers to malformed messages, an end when it is idle."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from creditflow.envs.http.limits import require_positive
from creditflow.train.adapters.openenv.messages import error_text, message_fault

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Send

__all__ = ["Session", "SessionLimits"]

GOING_AWAY: Final = 1001
POLICY: Final = 1008


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of a server.

    Attributes:
        sessions: most sessions at a time, each with an environment of its own.
        idle_seconds: a session is closed if its client sends nothing for so long.
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
