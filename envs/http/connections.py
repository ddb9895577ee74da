"""Connections with a deadline for every phase of a request, of which the longest-waiting ones are dropped when full.

Alternatives:

- uvicorn (h11, pure Python) parses strictly, responds in order and applies back pressure, but waits forever for a header
  that never ends, and counts half-open connections as busy.
- hypercorn's timeout is per read, so a byte now and then keeps a connection alive. aiohttp's server has a timeout only
  between requests. Granian has one for headers but none for bodies, and runs workers in its own processes, while our
  engines run in this one.
- A server of our own on h11 would repeat uvicorn's flow control, signals and life cycle.

So the server is uvicorn, and this class, the only place that depends on its protocol class, adds what it lacks. Starlette
and uvicorn are the extra ``[serve]``, not part of the core install.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from creditflow.envs.http.limits import ConnectionLimits

__all__ = ["GuardedConnection", "Lingering"]

LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
MAX_DISCARDED: Final = 64 * 2**20  # bytes that a client may send after a response that closes the connection


class GuardedConnection(H11Protocol):
    """One connection.

    Args:
        limits: limits of connections.
        config, server_state, app_state, _loop: arguments from uvicorn.

    Attributes:
        phase: "header", "body", "answer", "idle", "closing", or "gone"; "" in between.
    """

    def __init__(self, config: Any, server_state: Any, app_state: Any, _loop: Any = None, *, limits: ConnectionLimits):
        super().__init__(config, server_state, app_state, _loop)
        self.limits, self.phase, self._seconds = limits, "", limits.seconds
        self.conn = _Parser(h11.SERVER, limits.header_bytes, limits.chunks)
        self._since = self._stalled = (
            0.0  # start of the phase; time since which the client has not read, 0.0 if it reads
        )
        self._deadline = 0.0
        self._tick = min(self._seconds.values())  # period of the one timer that checks all phases
        self._timer: asyncio.TimerHandle | None = None
        self._discarded = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection if there is room, else respond 503."""
        # there may be more than the limit: refused connections stay until their client has read why
        while (full := len(self.connections) >= self.limits.connections) and self._make_room():
            pass
        self._link = cast("asyncio.Transport", transport)  # of a stream
        super().connection_made(cast("asyncio.Transport", Lingering(self._link, lambda: self._enter("closing"))))
        self._enter("header")
        self._watch()
        if full:
            self._end(FULL)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of requests; after the last request they are discarded."""
        if self.phase == "closing":
            self._discarded += len(data)
            if self._discarded > MAX_DISCARDED:
                self._link.abort()
        elif self.phase != "gone" and self.conn.their_state is not h11.MUST_CLOSE:
            super().data_received(data)
            self._update_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, the timer included."""
        self._enter("gone")
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def on_response_complete(self) -> None:
        """Expect the next request, unless the body of this one was rejected before its end."""
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        elif self.phase not in ("closing", "gone"):
            self.phase = ""  # the next phase starts now
        super().on_response_complete()
        if not self.transport.is_closing():
            self._update_phase()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand the bare transport to uvicorn's WebSocket protocol, whose deadlines are its own."""
        self._enter("gone")
        self.transport = self._link
        super().handle_websocket_upgrade(event)
        self._unset_keepalive_if_required()

    def send_400_response(self, msg: str) -> None:
        """Respond 400 to invalid HTTP, unless a response has already begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self._link.abort()

    def pause_writing(self) -> None:
        """Note that the client has stopped reading."""
        self._stalled = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        self._stalled = 0.0
        super().resume_writing()

    def _update_phase(self) -> None:
        """Enter the phase of the parser."""
        if self.phase in ("closing", "gone"):
            return
        state = self.conn.their_state
        if state is h11.IDLE:
            has_bytes = self.phase == "header" or bool(self.conn.trailing_data[0])
            self._enter("header" if has_bytes else "idle")
        else:
            self._enter("body" if state is h11.SEND_BODY else "answer")

    def _enter(self, phase: str) -> None:
        if phase == self.phase or self.phase == "gone":
            return
        self.phase, self._since = phase, self.loop.time()
        self._deadline = self._since + self._seconds.get(phase, 0.0)
        if phase == "gone" and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        seconds = self._deadline - self.loop.time()
        if seconds > 0:
            self._timer = self.loop.call_later(min(seconds, self._tick), self._watch)
            return
        self._expired()
        if self.phase == "closing":  # the client gets time to read the last response
            self._timer = self.loop.call_later(self._tick, self._watch)

    def _expired(self) -> None:
        if self.phase == "header":
            self._end(LATE if self.conn.trailing_data[0] else b"")
        elif self.phase == "idle":
            self._end(b"")
        else:
            self._link.abort()

    def _end(self, response: bytes) -> None:
        self.transport.write(response)
        self.transport.close()

    def _make_room(self) -> bool:
        """Drop the connection that has been waiting longest; return whether there was one."""
        waiting = [
            (connection._stalled or connection._since, id(connection), connection)
            for connection in self.connections
            if isinstance(connection, GuardedConnection)
            and (connection._stalled or connection.phase not in ("answer", "gone"))
        ]
        if not waiting:
            return False
        _, _, oldest = min(waiting)
        self.connections.discard(oldest)
        oldest._link.abort()
        oldest._enter("gone")
        return True


class _Parser(h11.Connection):
    """h11's parser with limits: h11 accepts a header of any size that arrives at once, and any number of chunks."""

    def __init__(self, role: Any, header_bytes: int, chunks: int) -> None:
        super().__init__(role, header_bytes)
        self._header_bytes, self._max_chunks, self._chunks = header_bytes, chunks, 0

    def next_event(self) -> Any:
        """Return the next event.

        Raises:
            h11.RemoteProtocolError: invalid HTTP, too long a header, or too many chunks.
        """
        if self.their_state is h11.MUST_CLOSE:  # bytes after the last request are not parsed
            return h11.NEED_DATA
        event: Any = super().next_event()
        kind = type(event)  # events have no subclasses; isinstance with their abstract base takes ten times as long
        if kind is h11.Data:
            if event.chunk_start:
                self._chunks += 1
                if self._chunks > self._max_chunks:
                    raise h11.RemoteProtocolError(f"a body has at most {self._max_chunks} chunks")
        elif kind is h11.Request:
            self._chunks = 0
            self._check(event.headers, len(event.method) + len(event.target))
        elif kind is h11.EndOfMessage and event.headers:
            self._check(event.headers)
        return event

    def _check(self, headers: Any, size: int = 0) -> None:
        for name, value in headers.raw_items():
            size += len(name) + len(value) + 4
        if size > self._header_bytes:
            raise h11.RemoteProtocolError(f"a header has at most {self._header_bytes} bytes")


class Lingering:
    """A transport whose ``close`` flushes and half-closes, then reads on until the client closes or the time is up.

    A socket that is closed while bytes arrive resets the connection, and the client loses the response.

    Args:
        transport: the transport.
        closing: called by the first ``close``; it must see to the end of the time.
    """

    def __init__(self, transport: asyncio.Transport, closing: Callable[[], None]) -> None:
        self._transport, self._closing, self._closed = transport, closing, False
        self._write = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send, unless the transport was closed."""
        if data and not self._closed:
            self._write(data)

    def is_closing(self) -> bool:
        """Return whether the transport no longer sends."""
        return self._closed or self._transport.is_closing()

    def close(self) -> None:
        """Stop sending."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._transport.get_write_buffer_size():  # the client does not read, so there is nothing to wait for
                self._transport.close()
            else:
                self._transport.write_eof()
                self._transport.resume_reading()
        except OSError:  # the client has disconnected
            self._transport.abort()
        self._closing()
