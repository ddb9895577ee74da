"""What the connections of one server may take."""

from __future__ import annotations

from dataclasses import dataclass

from creditflow.envs.errors import ConfigError

__all__ = ["ConnectionLimits"]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What the connections of one server may take.

    Attributes:
        connections: at a time. The one that has kept us waiting longest makes room for the next; when all are being
            answered, the next is answered 503.
        header_bytes: of one request.
        header_seconds: from the connection, or the first byte of a later request, to the end of the header.
        body_seconds: from there to the end of the body.
        answer_seconds: from there to the end of the answer.
        idle_seconds: between two requests.
        linger_seconds: for which a closed connection is still read, so that its client reads the answer: bytes that
            arrive at a closed socket destroy it.
        chunks: of one body; each costs time, however few bytes it has.
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
        if min(self.connections, self.header_bytes, self.chunks) < 1 or min(self.seconds.values()) <= 0:
            raise ConfigError(f"every limit of connections must be positive, got {self}")

    @property
    def seconds(self) -> dict[str, float]:
        """How long each phase lasts at most."""
        return {
            "header": self.header_seconds,
            "body": self.body_seconds,
            "answer": self.answer_seconds,
            "idle": self.idle_seconds,
            "closing": self.linger_seconds,
        }
