"""Serving an application: the address is bound before anything slow, then served until interrupted.

The limits of connections are uvicorn's. It waits for slow clients and knows no keys, so a server listens on loopback; for
other machines put it behind a reverse proxy, which bounds headers and bodies in time.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    import uvicorn

__all__ = ["bound", "listen", "make_server", "url_of"]

LOOPBACK: Final = "127.0.0.1"
CONNECTIONS: Final = 1_000  # at a time; the next ones get a 503
IDLE_SECONDS: Final = 30  # between two requests of a connection
PING_SECONDS: Final = 20.0  # between two pings of a WebSocket, and for their answer
SHUTDOWN_SECONDS: Final = 5  # for running requests when the server stops


def listen(make: Callable[[], Any], port: int, what: str, *, message_bytes: int = 0) -> None:
    """Serve on loopback until interrupted; a port that cannot be had is reported before the application is made.

    Args:
        make: makes the application.
        port: port to listen on.
        what: name of the service in messages.
        message_bytes: most bytes of a message over WebSocket; 0 if the application speaks none.

    Raises:
        ConfigError: an invalid port, or one that is in use.
        MissingExtraError: uvicorn is not installed.
    """
    if not 0 < port < 65536:
        raise ConfigError(f"--port must be from 1 to 65535, got {port}")
    _require_uvicorn(what)
    with bound(port) as sock:
        make_server(make(), message_bytes).run(sockets=[sock])


def bound(port: int) -> socket.socket:
    """Return a socket bound to a port of loopback; 0: any free port.

    Raises:
        ConfigError: the port is in use.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, port))
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"cannot listen on {LOOPBACK}, port {port}: {error.strerror}; --port N names another"
        ) from error
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the URL of a bound socket."""
    return f"http://{LOOPBACK}:{sock.getsockname()[1]}/"


def make_server(app: Any, message_bytes: int = 0) -> uvicorn.Server:
    """Make a server; ``run(sockets=[…])`` serves until interrupted.

    Args:
        app: an ASGI application.
        message_bytes: most bytes of a message over WebSocket; 0 if the application speaks none.
    """
    import uvicorn

    config = uvicorn.Config(
        app,
        http="h11",
        ws="websockets-sansio" if message_bytes else "none",
        loop="asyncio",
        lifespan="on",  # a failing start is an error
        log_level="error",  # a line per malformed request could fill the disk
        access_log=False,
        proxy_headers=False,  # clients must not set the caller's address
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ws_max_size=message_bytes or 1,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # small messages: it costs more than it saves
    )
    # a client's broken text is no fault of the server, and a traceback for each could fill the disk as well
    logging.getLogger("uvicorn.error").addFilter(lambda record: "Invalid UTF-8" not in record.getMessage())
    return uvicorn.Server(config)


def _require_uvicorn(what: str) -> None:
    if find_spec("uvicorn") is None:  # reported before anything slow
        raise MissingExtraError(f"uvicorn, which the {what} server runs on,", "serve")
