"""Checks of ``Host`` and ``Origin``, so that web pages of other sites cannot use a local server, and of a key for other machines.

Any web page that is open in a browser on this machine can send requests to a loopback address, and through a host name of
its own that resolves to that address ("DNS rebinding") it can also read the responses. ``Host`` and ``Origin`` reveal both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from creditflow.envs.http.credentials import ApiKey

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["CallerCheck", "KeyCheck", "is_own_host", "rejection"]


class CallerCheck:
    """Middleware that passes a request to the application, or rejects it.

    Args:
        app: the protected application.
        hosts: host names that are accepted besides this machine's own; "*": any.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = ()) -> None:
        self._app, self._hosts = app, frozenset(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        rejected = rejection(scope, self._hosts) if scope["type"] == "http" else None
        if rejected is None:
            await self._app(scope, receive, send)
            return
        from starlette.responses import JSONResponse

        status, text = rejected
        await JSONResponse({"detail": text}, status, {"Connection": "close"})(scope, receive, send)


class KeyCheck:
    """Middleware that passes requests and WebSockets with a key to the application, and responds 401 to all others.

    Args:
        app: the protected application.
        key: the key that clients send as ``Authorization: Bearer KEY``.
    """

    def __init__(self, app: ASGIApp, key: ApiKey) -> None:
        self._app, self._key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or one WebSocket, whose handshake is refused with status 403."""
        sent = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        if scope["type"] == "lifespan" or (len(sent) == 1 and self._key.authorizes(sent[0])):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            from starlette.responses import JSONResponse

            text = "this server needs its key, sent as Authorization: Bearer KEY"
            headers = {"Connection": "close", "WWW-Authenticate": "Bearer"}
            await JSONResponse({"detail": text}, 401, headers)(scope, receive, send)


def rejection(scope: Scope, hosts: frozenset[str] = frozenset()) -> tuple[int, str] | None:
    """Return status and reason of a rejected request; None if it is accepted.

    Args:
        scope: ASGI scope of the request.
        hosts: as in ``CallerCheck``.
    """
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    if b"content-length" in headers and b"transfer-encoding" in headers:  # a proxy in front may read the other one
        return 400, "Content-Length and Transfer-Encoding must not occur together"
    hosts_sent = headers.get(b"host", [])
    host = hosts_sent[0].decode("latin-1").lower() if len(hosts_sent) == 1 else ""
    if not is_own_host(host, hosts):
        return 421, "this server does not accept this Host; --allow-host NAME adds one"
    foreign = headers.get(b"origin", [f"http://{host}".encode("latin-1")]) != [f"http://{host}".encode("latin-1")]
    if foreign or headers.get(b"sec-fetch-site", [b"none"]) not in ([b"same-origin"], [b"none"]):
        return 403, "requests from pages of other sites are rejected"
    return None


def is_own_host(host: str, hosts: frozenset[str] = frozenset()) -> bool:
    """Return whether a ``Host`` header is localhost, an address, or allowed: no site has an address for its name.

    Args:
        host: the header, in lower case.
        hosts: host names that are allowed besides, with or without a port; "*": any.
    """
    try:
        split = urlsplit(f"//{host}")
        name, _ = split.hostname or "", split.port
        if hosts & {"*", host, name} or (name == "localhost" and split.netloc == host):
            return True
        ipaddress.ip_address(name)
    except ValueError:  # neither an address nor a port
        return False
    return split.netloc == host and "@" not in host
