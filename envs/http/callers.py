"""Who may ask: requests that name this server as their host, and no page of another site.

A web page of anybody, open in a browser on this machine, can send requests to a loopback address, and by a name of its
own that it lets point there ("DNS rebinding") it can read the answers too. Both show: in ``Host`` and in ``Origin``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["CallerCheck", "host_is_ours", "refusal"]


class CallerCheck:
    """Lets a request through to the application, or answers it.

    Args:
        app: what is protected.
        hosts: names that are answered besides this machine's own; "*": any.
        pages: the application serves pages: a post must say that it comes from one of them. Otherwise no origin at all
            is fine, which is what programs send.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = (), pages: bool = False) -> None:
        self._app, self._hosts, self._pages = app, frozenset(name.lower() for name in hosts), pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        found = refusal(scope, self._hosts, self._pages) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        from starlette.responses import JSONResponse

        status, text = found
        await JSONResponse({"detail": text}, status, {"Connection": "close"})(scope, receive, send)


def refusal(scope: Scope, hosts: frozenset[str] = frozenset(), pages: bool = False) -> tuple[int, str] | None:
    """Status and reason with which a request is refused; None if it is not.

    Args:
        scope: of the request, as ASGI has it.
        hosts, pages: as ``CallerCheck`` takes them.
    """
    told: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        told.setdefault(name, []).append(value)
    if b"content-length" in told and b"transfer-encoding" in told:
        return 400, "Content-Length together with Transfer-Encoding: which of them is meant is not guessed"
    if scope["http_version"] not in ("1.0", "1.1"):
        return 400, "this server speaks HTTP/1.0 and 1.1"
    if not scope.get("raw_path", b"/").startswith(b"/"):
        return 400, "a request's target must be a path"
    named = told.get(b"host", [])
    host = named[0].decode("latin-1").lower() if len(named) == 1 else ""
    address, port = scope.get("server") or ("", 0)
    if not host_is_ours(host, str(address), port, hosts):
        return 421, "this server does not answer to that Host; --allow-host NAME adds a name"
    if b"origin" in told:
        foreign = told[b"origin"] != [f"http://{host}".encode("latin-1")]
    elif pages:
        foreign = scope["method"] not in ("GET", "HEAD")
    else:
        foreign = told.get(b"sec-fetch-site", [b"none"]) not in ([b"same-origin"], [b"none"])
    if foreign:
        return 403, "requests from pages of other sites are refused"
    return None


@lru_cache(maxsize=256)
def host_is_ours(host: str, address: str, port: int | None, hosts: frozenset[str] = frozenset()) -> bool:
    """Whether a ``Host`` header names this server.

    On loopback it must be the address or localhost, with the port. Elsewhere any address will do, as no site can have
    one for a name, while names must have been allowed.

    Args:
        host: the header, in lower case.
        address, port: of this end of the connection.
        hosts: names that are allowed besides.
    """
    name, _, number = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, number = host, ""
    if hosts & {"*", host, name}:
        return True
    if _is_loopback(address):
        mine = {"127.0.0.1", "localhost", "[::1]", f"[{address}]" if ":" in address else address}
        return host in {f"{one}:{port}" for one in mine} | (mine if port == 80 else set())
    return (name == "localhost" or _address(name) is not None) and (not number or number.isdecimal())


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _is_loopback(text: str) -> bool:
    found = _address(text)
    mapped = getattr(found, "ipv4_mapped", None)
    return found is not None and (mapped or found).is_loopback
