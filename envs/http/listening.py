"""An application behind an address: bound before anything slow begins, served until interrupted."""

from __future__ import annotations

import resource
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.envs.http.limits import ConnectionLimits

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

__all__ = ["bound", "listen", "make_server", "serve", "url_of"]

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
OTHER_FILES: Final = 128  # file descriptors for all but connections
SENDING_SECONDS: Final = 60.0  # for an answer to be read by its client
SHUTDOWN_SECONDS: Final = 5  # for requests that are being answered when the server is stopped


def listen(make: Callable[[], Starlette], host: str, port: int, what: str, *, seconds: float) -> None:
    """Serve until interrupted; what is wrong with the address is told before anything is made.

    Args:
        make: the application.
        host, port: to listen on.
        what: is served, in a word.
        seconds: that the application takes for one request at most.

    Raises:
        ConfigError: an impossible port, an address that is not ours, or one that is taken.
        MissingExtraError: uvicorn is not installed.
    """
    if not 0 < port < 65536:
        raise ConfigError(f"--port must be from 1 to 65535, got {port}")
    _uvicorn(what)
    with bound(host, port) as sock:
        app = make()
        if host not in LOOPBACK:
            print(f"warning: listening on {host}: anybody who reaches this machine can use it", file=sys.stderr)
        serve(app, sock, what, seconds=seconds)


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address, which is taken from now on; port 0: any that is free.

    Raises:
        ConfigError: no address of this machine, or taken.
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
    """Where a bound socket is asked."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(app: Starlette, sock: socket.socket, what: str, *, seconds: float) -> None:
    """Serve an application at a bound socket until interrupted.

    Args:
        app, sock: which, and where.
        what: is served, in a word.
        seconds: that the application takes for one request at most.

    Raises:
        MissingExtraError: uvicorn is not installed.
        KeyboardInterrupt: it was interrupted.
    """
    _uvicorn(what)
    limits = ConnectionLimits(answer_seconds=seconds + SENDING_SECONDS)
    make_server(app, limits).run(sockets=[sock])


def make_server(app: Any, limits: ConnectionLimits | None = None) -> uvicorn.Server:
    """A server whose connections are guarded; ``run(sockets=[…])`` serves.

    Args:
        app: an ASGI application.
        limits: of its connections; fewer connections where the process may not open the files.
    """
    import uvicorn

    from creditflow.envs.http.connections import GuardedConnection

    limits = limits or ConnectionLimits()
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY:  # those that were accepted and not yet looked at count too
        limits = replace(limits, connections=min(limits.connections, max((files - OTHER_FILES) // 2, 1)))
    config = uvicorn.Config(
        app,
        # uvicorn calls it as it would call the class
        http=partial(GuardedConnection, limits=limits),  # type: ignore[arg-type]
        ws="none",
        loop="asyncio",
        lifespan="on",  # a failing start is an error, not a server that hangs
        log_level="error",  # a line for each malformed request would fill a disk
        access_log=False,
        proxy_headers=False,  # nobody may say for others who asks
        server_header=False,
        backlog=limits.connections,
        timeout_keep_alive=int(limits.idle_seconds) + 1,  # ours comes first
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def _uvicorn(what: str) -> None:
    try:
        import uvicorn  # noqa: F401 - looked for before anything slow is done
    except ImportError as error:
        raise MissingExtraError(f"uvicorn, which the {what} server runs on,", "serve") from error
