"""Serving an application: the address is bound before anything slow, then served until interrupted."""

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.envs.http.callers import KeyCheck
from creditflow.envs.http.credentials import ApiKey
from creditflow.envs.http.limits import ConnectionLimits, WebSockets

if TYPE_CHECKING:
    import uvicorn

__all__ = ["bound", "listen", "make_server", "serve", "url_of"]

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
OTHER_FILES: Final = 128  # file descriptors for other uses than connections
SENDING_SECONDS: Final = 60.0  # for the client to read a response
SHUTDOWN_SECONDS: Final = 5  # for running requests when the server stops


def listen(
    make: Callable[[], Any],
    host: str,
    port: int,
    what: str,
    *,
    seconds: float,
    websockets: WebSockets | None = None,
    key_variable: str = "",
) -> None:
    """Serve until interrupted; an invalid address is reported before the application is made.

    Args:
        make: makes the application.
        host, port: address to listen on.
        what: name of the service in messages.
        seconds: most seconds that the application needs for one request.
        websockets: how it speaks WebSocket; None if it does not.
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
                f"warning: listening on {host}: anyone who can reach this machine can use the server; "
                "--key-variable NAME makes clients send a key",
                file=sys.stderr,
            )
        serve(app, sock, what, seconds=seconds, websockets=websockets)


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


def serve(app: Any, sock: socket.socket, what: str, *, seconds: float, websockets: WebSockets | None = None) -> None:
    """Serve an application on a bound socket until interrupted.

    Args:
        app: the ASGI application.
        sock: a bound socket.
        what: name of the service in messages.
        seconds: most seconds that the application needs for one request.
        websockets: how it speaks WebSocket; None if it does not.

    Raises:
        MissingExtraError: uvicorn is not installed.
        KeyboardInterrupt: interrupted by the user.
    """
    _require_uvicorn(what)
    limits = ConnectionLimits(answer_seconds=seconds + SENDING_SECONDS)
    if websockets is not None:
        limits = replace(limits, connections=websockets.connections)
    make_server(app, limits, websockets).run(sockets=[sock])


def make_server(
    app: Any, limits: ConnectionLimits | None = None, websockets: WebSockets | None = None
) -> uvicorn.Server:
    """Make a server with ``GuardedConnection``; ``run(sockets=[…])`` serves.

    Args:
        app: an ASGI application.
        limits: limits of its connections; their number is reduced to what the process may open.
        websockets: how it speaks WebSocket; None if it does not.
    """
    import uvicorn

    from creditflow.envs.http.connections import GuardedConnection

    limits = limits or ConnectionLimits()
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY:  # accepted connections that are not yet handled count too
        limits = replace(limits, connections=min(limits.connections, max((files - OTHER_FILES) // 2, 1)))
    config = uvicorn.Config(
        app,
        http=partial(GuardedConnection, limits=limits),  # type: ignore[arg-type]  # uvicorn calls it like the class
        ws="none" if websockets is None else websockets.protocol,
        loop="asyncio",
        lifespan="on",  # a failing start is an error
        log_level="error",  # a line per malformed request could fill the disk
        access_log=False,
        proxy_headers=False,  # clients must not set the caller's address
        server_header=False,
        backlog=limits.connections,
        timeout_keep_alive=int(limits.idle_seconds) + 1,  # our own deadline comes first
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ws_per_message_deflate=False,  # small messages: it costs more than it saves, and a bomb could hide in it
        **({} if websockets is None else _websocket_settings(websockets)),
    )
    return uvicorn.Server(config)


def _websocket_settings(websockets: WebSockets) -> dict[str, Any]:
    return {
        "ws_max_size": websockets.message_bytes,
        "ws_ping_interval": websockets.ping_seconds,
        "ws_ping_timeout": websockets.ping_seconds,
    }


def _require_uvicorn(what: str) -> None:
    if find_spec("uvicorn") is None:  # reported before anything slow
        raise MissingExtraError(f"uvicorn, which the {what} server runs on,", "serve")
