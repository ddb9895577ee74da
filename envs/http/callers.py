"""Checks of ``Host`` and ``Origin``, so that web pages of other sites cannot use a local server, and of a key for other machines.

Any web page that is open in a browser on this machine can send requests to a loopback address, and through a host name of
its own that resolves to that address ("DNS rebinding") it can also read the responses. ``Host`` and ``Origin`` reveal both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from creditflow.envs.http.credentials import ApiKey

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["CallerCheck", "KeyCheck", "is_own_host", "rejection"]


class CallerCheck:
    """Middleware that passes a request to the application, or rejects it.

    Args:
        app: the protected application.
        hosts: host names that are accepted besides this machine's own; "*": any.
        pages: whether the application serves pages: then a POST needs an ``Origin`` of this server. Otherwise requests
            without ``Origin`` are accepted, as programs send them.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = (), pages: bool = False) -> None:
        self._app, self._hosts, self._pages = app, frozenset(name.lower() for name in hosts), pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        rejected = rejection(scope, self._hosts, self._pages) if scope["type"] == "http" else None
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


def rejection(scope: Scope, hosts: frozenset[str] = frozenset(), pages: bool = False) -> tuple[int, str] | None:
    """Return status and reason of a rejected request; None if it is accepted.

    Args:
        scope: ASGI scope of the request.
        hosts, pages: as in ``CallerCheck``.
    """
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    if b"content-length" in headers and b"transfer-encoding" in headers:
        return 400, "Content-Length and Transfer-Encoding must not occur together"
    if scope["http_version"] not in ("1.0", "1.1"):
        return 400, "this server supports HTTP/1.0 and 1.1"
    if not scope.get("raw_path", b"/").startswith(b"/"):
        return 400, "a request's target must be a path"
    hosts_sent = headers.get(b"host", [])
    host = hosts_sent[0].decode("latin-1").lower() if len(hosts_sent) == 1 else ""
    address, port = scope.get("server") or ("", 0)
    if not is_own_host(host, str(address), port, hosts):
        return 421, "this server does not accept this Host; --allow-host NAME adds one"
    if b"origin" in headers:
        foreign = headers[b"origin"] != [f"http://{host}".encode("latin-1")]
    elif pages:
        foreign = scope["method"] not in ("GET", "HEAD")
    else:
        foreign = headers.get(b"sec-fetch-site", [b"none"]) not in ([b"same-origin"], [b"none"])
    if foreign:
        return 403, "requests from pages of other sites are rejected"
    return None


@lru_cache(maxsize=256)
def is_own_host(host: str, address: str, port: int | None, hosts: frozenset[str] = frozenset()) -> bool:
    """Return whether a ``Host`` header belongs to this server.

    On loopback it must be the address or localhost, with the port. Elsewhere any IP address is accepted, as no site can
    have one as its name, but names must be allowed explicitly.

    Args:
        host: the header, in lower case.
        address, port: local end of the connection.
        hosts: host names that are allowed besides.
    """
    name, _, number = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, number = host, ""
    if hosts & {"*", host, name}:
        return True
    if _is_loopback(address):
        names = {"127.0.0.1", "localhost", "[::1]", f"[{address}]" if ":" in address else address}
        return host in {f"{name}:{port}" for name in names} | (names if port == 80 else set())
    return (name == "localhost" or _address(name) is not None) and (not number or number.isdecimal())


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _is_loopback(text: str) -> bool:
    address = _address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    return address is not None and (mapped or address).is_loopback
