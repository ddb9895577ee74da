"""HTTP as raw bytes, for headers that no client would send."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

__all__ = ["ask", "connect", "post"]

PATIENCE = 20.0  # seconds before a silent server counts as hanging


def connect(url: str) -> socket.socket:
    """A connection."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE)


def post(url: str, path: str, body: bytes, *lines: str, host: str = "") -> bytes:
    """A complete request with further lines in its header."""
    first = (f"POST {path} HTTP/1.1", f"Host: {host or urlsplit(url).netloc}", f"Content-Length: {len(body)}")
    return "".join(f"{line}\r\n" for line in (*first, "Connection: close", *lines)).encode("latin-1") + b"\r\n" + body


def ask(url: str, data: bytes) -> int:
    """The status with which a request is answered."""
    with connect(url) as sock:
        sock.sendall(data)
        with sock.makefile("rb") as answer:
            line = answer.readline(65_536)
    assert line, "the connection was closed without an answer"
    return int(line.split()[1])
