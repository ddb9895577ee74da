"""Checks of ``Host`` and ``Origin``, so that web pages of other sites cannot use a local server.

Any web page that is open in a browser on this machine can send requests to a loopback address, and through a host name of
its own that resolves to that address ("DNS rebinding") it can also read the responses. ``Host`` and ``Origin`` reveal both.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["CallerCheck", "is_own_host", "rejection"]


class CallerCheck:
    """Middleware that passes a request to the application, or rejects it.

    Args:
        app: the protected application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        rejected = rejection(scope) if scope["type"] == "http" else None
        if rejected is None:
            await self._app(scope, receive, send)
            return
        from starlette.responses import JSONResponse

        status, text = rejected
        await JSONResponse({"detail": text}, status, {"Connection": "close"})(scope, receive, send)


def rejection(scope: Scope) -> tuple[int, str] | None:
    """Return status and reason of a request that is rejected, by its ASGI scope; None if it is accepted."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    if b"content-length" in headers and b"transfer-encoding" in headers:  # a proxy in front may read the other one
        return 400, "Content-Length and Transfer-Encoding must not occur together"
    hosts_sent = headers.get(b"host", [])
    host = hosts_sent[0].decode("latin-1").lower() if len(hosts_sent) == 1 else ""
    if not is_own_host(host):
        return 421, "this server accepts localhost and addresses as Host; a proxy in front of it must send one of them"
    foreign = headers.get(b"origin", [f"http://{host}".encode("latin-1")]) != [f"http://{host}".encode("latin-1")]
    if foreign or headers.get(b"sec-fetch-site", [b"none"]) not in ([b"same-origin"], [b"none"]):
        return 403, "requests from pages of other sites are rejected"
    return None


def is_own_host(host: str) -> bool:
    """Return whether a ``Host`` header, in lower case, is localhost or an address: no site has an address for its name."""
    try:
        split = urlsplit(f"//{host}")
        name, _ = split.hostname or "", split.port
        if name == "localhost" and split.netloc == host:
            return True
        ipaddress.ip_address(name)
    except ValueError:  # neither an address nor a port
        return False
    return split.netloc == host and "@" not in host
