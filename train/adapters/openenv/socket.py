"""WebSocket connections whose last message arrives, with a bound on the pieces of a message, which uvicorn bounds in bytes alone."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from creditflow.envs.http.connections import MAX_DISCARDED, Lingering

__all__ = ["GuardedSocket"]

MAX_FRAGMENTS: Final = 1024  # a message of empty fragments would grow without end
TOO_BIG: Final = 1009
NO_TEXT: Final = 1007
LINGER_SECONDS: Final = 2.0  # for which a closed connection is still read, so that the client gets the reason


class GuardedSocket(WebSocketsSansIOProtocol):
    """One WebSocket of uvicorn."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, on a transport that lingers when it is closed."""
        self._link = cast("asyncio.Transport", transport)
        self._discarded = 0
        self._end: asyncio.TimerHandle | None = None
        super().connection_made(cast("asyncio.Transport", Lingering(self._link, self._linger)))

    def data_received(self, data: bytes) -> None:
        """Receive bytes; after the end they are discarded."""
        if self._end is None:
            super().data_received(data)
            return
        self._discarded += len(data)
        if self._discarded > MAX_DISCARDED:
            self._link.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, the timer included."""
        super().connection_lost(exc)
        if self._end is not None:
            self._end.cancel()

    def handle_cont(self, event: Any) -> None:
        """Add one fragment to the message, unless it has too many."""
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
            return
        self.frames = []
        self.conn.fail(TOO_BIG, f"a message has at most {MAX_FRAGMENTS} fragments")
        self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Pass a whole message on, unless it is text that is no UTF-8: uvicorn would write a traceback into the log."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.fail(NO_TEXT, "a text message is UTF-8")
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def _linger(self) -> None:
        self._end = self.loop.call_later(LINGER_SECONDS, self._link.abort)
