"""Limits of the connections of one server."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from creditflow.envs.errors import ConfigError

__all__ = ["ConnectionLimits", "WebSockets", "require_positive"]


def require_positive(limits: Any, what: str) -> None:
    """Check a dataclass of limits: those whose default is an integer must be at least 1, the others above 0.

    Raises:
        ConfigError: a limit is too low.
    """
    for field in fields(limits):
        value = getattr(limits, field.name)
        if value < 1 if isinstance(field.default, int) else value <= 0:
            raise ConfigError(f"every limit of {what} must be positive, got {limits}")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of the connections of one server.

    Attributes:
        connections: most at a time. The one that has been waiting longest is dropped for the next; if all are being
            served, the next gets a 503.
        header_bytes: most bytes of a header.
        header_seconds: from the connection, or the first byte of a later request, to the end of the header.
        body_seconds: from there to the end of the body.
        answer_seconds: from there to the end of the response.
        idle_seconds: time between two requests.
        linger_seconds: time for which a closed connection is still read, as bytes that arrive at a closed socket would
            destroy the response.
        chunks: most chunks of a body; each takes time to parse, however few bytes it has.
    """

    connections: int = 1_000
    header_bytes: int = 16_384
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    answer_seconds: float = 180.0
    idle_seconds: float = 30.0
    linger_seconds: float = 2.0
    chunks: int = 16_384

    def __post_init__(self) -> None:
        require_positive(self, "connections")

    @property
    def seconds(self) -> dict[str, float]:
        """Deadline of each phase."""
        return {
            "header": self.header_seconds,
            "body": self.body_seconds,
            "answer": self.answer_seconds,
            "idle": self.idle_seconds,
            "closing": self.linger_seconds,
        }


class WebSockets(NamedTuple):
    """How a server speaks WebSocket.

    Attributes:
        protocol: uvicorn's protocol class of such a connection.
        message_bytes: most bytes of a message; a longer one closes the connection.
        connections: most connections at a time, of HTTP and WebSocket together.
        ping_seconds: time between two pings, and for their answer.
    """

    protocol: type
    message_bytes: int
    connections: int
    ping_seconds: float = 20.0
