"""Serving an application: the address is bound before anything slow, then served until interrupted.

The limits of connections are uvicorn's. It waits for slow clients, so a server is for loopback; elsewhere put it behind a
reverse proxy, which bounds headers and bodies in time.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.envs.http.callers import KeyCheck
from creditflow.envs.http.credentials import ApiKey

if TYPE_CHECKING:
    import uvicorn

__all__ = ["bound", "listen", "make_server", "url_of"]

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
CONNECTIONS: Final = 1_000  # at a time; the next ones get a 503
IDLE_SECONDS: Final = 30  # between two requests of a connection
PING_SECONDS: Final = 20.0  # between two pings of a WebSocket, and for their answer
SHUTDOWN_SECONDS: Final = 5  # for running requests when the server stops


def listen(
    make: Callable[[], Any],
    host: str,
    port: int,
    what: str,
    *,
    message_bytes: int = 0,
    key_variable: str = "",
) -> None:
    """Serve until interrupted; an invalid address is reported before the application is made.

    Args:
        make: makes the application.
        host, port: address to listen on.
        what: name of the service in messages.
        message_bytes: most bytes of a message over WebSocket; 0 if the application speaks none.
        key_variable: environment variable with the key that clients must send; "" if anyone may use the server.

    Raises:
        ConfigError: an invalid port, an address of another machine, one that is in use, or a variable that is not set.
        MissingExtraError: uvicorn is not installed.
    """
    if not 0 < port < 65536:
        raise ConfigError(f"--port must be from 1 to 65535, got {port}")
    _require_uvicorn(what)
    key = ApiKey.named(key_variable)
    with bound(host, port) as sock:
        app = make() if key is None else KeyCheck(make(), key)
        if key is None and host not in LOOPBACK:
            print(
                f"warning: listening on {host}: anyone who can reach this machine can use the server; --key-variable NAME "
                "makes clients send a key, and a reverse proxy must bound slow clients",
                file=sys.stderr,
            )
        make_server(app, message_bytes).run(sockets=[sock])


def bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0: any free port.

    Raises:
        ConfigError: not an address of this machine, or in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {host!r}: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise ConfigError(f"cannot listen on {host!r}, port {port}: {error.strerror}") from error
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the URL of a bound socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


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
