"""A hostile HTTP client: raw bytes over sockets, bounded in time, and a table of malformed requests."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

PATIENCE = 20.0  # seconds before a silent server counts as hanging
PAUSE = 1.0  # seconds that a server may take to refuse, before the sending side is closed


@dataclass(frozen=True)
class Target:
    """A server under attack.

    Attributes:
        url: its base URL.
        path, body: of a valid POST.
        wanted: status of the response to it.
    """

    url: str
    path: str
    body: bytes
    wanted: int = 200

    @property
    def netloc(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc

    def head(self, *lines: str, method: str = "POST", path: str = "", version: str = "1.1", host: str = "") -> bytes:
        """A header, its last line included, with further lines of its own."""
        first = [f"{method} {path or self.path} HTTP/{version}", f"Host: {host or self.netloc}"]
        return "".join(f"{line}\r\n" for line in [*first, *lines]).encode("latin-1")

    def good(self, *lines: str, **parts: str) -> bytes:
        """A complete valid request."""
        return self.head(f"Content-Length: {len(self.body)}", *lines, **parts) + b"\r\n" + self.body

    def chunked(self, *chunks: bytes) -> bytes:
        """The same with these bytes for a chunked body."""
        return self.head("Transfer-Encoding: chunked") + b"\r\n" + b"".join(chunks)


def connect(url: str) -> socket.socket:
    """A connection."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE)


def answers(sock: socket.socket, most: int = 1) -> list[tuple[int, bytes]]:
    """Status and body of what comes, up to so many answers or the end of the connection.

    Raises:
        TimeoutError: the server hangs.
        ConnectionError: it resets the connection before it has answered.
    """
    found: list[tuple[int, bytes]] = []
    with sock.makefile("rb") as file:
        while len(found) < most:
            try:
                line = file.readline(65_536)
            except ConnectionError:
                if found:
                    break
                raise
            if not line:
                break
            status = int(line.split()[1])
            length = None
            while (header := file.readline(65_536)) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            if status == 100:
                continue
            found.append((status, file.read() if length is None else file.read(length)))
    return found


def ask(url: str, data: bytes) -> int:
    """The status with which a request is answered."""
    with connect(url) as sock:
        sock.sendall(data)
        found = answers(sock)
    assert found, "the connection was closed without an answer"
    return found[0][0]


def attempt(url: str, data: bytes) -> int:
    """The status of the answer to whatever bytes; 0 if the connection is closed without one. Nothing more is sent."""
    with connect(url) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(data)
        if not select.select([sock], [], [], PAUSE)[0]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
        try:
            found = answers(sock)
        except (ConnectionError, ValueError, IndexError):
            return 0
    return found[0][0] if found else 0


@contextlib.contextmanager
def holding(url: str, count: int, data: bytes) -> Iterator[list[socket.socket]]:
    """So many connections, each of which has sent these bytes and nothing else."""
    held: list[socket.socket] = []
    try:
        for _ in range(count):
            sock = connect(url)
            with contextlib.suppress(ConnectionError):
                sock.sendall(data)
            held.append(sock)
        yield held
    finally:
        for sock in held:
            sock.close()


def malformed(target: Target) -> dict[str, bytes]:
    """Requests that must be rejected or dropped, by what is wrong with them."""
    return _malformed_lengths(target) | _malformed_heads(target) | _malformed_bodies(target)


def _malformed_lengths(target: Target) -> dict[str, bytes]:
    head, body = target.head, target.body
    length = f"Content-Length: {len(body)}"
    whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    return {
        "length and chunks": head(length, "Transfer-Encoding: chunked") + b"\r\n" + whole,
        "chunks and length": head("Transfer-Encoding: chunked", length) + b"\r\n" + whole,
        "length, chunks, a second request": head("Content-Length: 4", "Transfer-Encoding: chunked")
        + b"\r\n0\r\n\r\n"
        + target.good(),
        "an unknown transfer encoding": head("Transfer-Encoding: gzip") + b"\r\n" + body,
        "chunks twice": head("Transfer-Encoding: chunked, chunked") + b"\r\n" + whole,
        "two lengths": head(length, f"Content-Length: {len(body) + 1}") + b"\r\n" + body,
        "two lengths in one": head(f"Content-Length: {len(body)}, {len(body) + 1}") + b"\r\n" + body,
        "a negative length": head("Content-Length: -1") + b"\r\n" + body,
        "a signed length": head(f"Content-Length: +{len(body)}") + b"\r\n" + body,
        "a length in words": head("Content-Length: ten") + b"\r\n" + body,
        "a length of a thousand digits": head("Content-Length: " + "9" * 1000) + b"\r\n" + body,
        "no colon": head("Nonsense") + b"\r\n" + body,
        "a space before the colon": head("Content-Length : 2") + b"\r\n" + body,
    }


def _malformed_heads(target: Target) -> dict[str, bytes]:
    head, body, bare = target.head, target.body, target.path
    length = f"Content-Length: {len(body)}"
    return {
        "NUL in a header": head(length, "X-A: \0") + b"\r\n" + body,
        "NUL in the path": head(length, path=bare + "\0") + b"\r\n" + body,
        "NUL in the path, encoded": head(length, path=bare + "%00") + b"\r\n" + body,
        "a bad percent sign": head(length, path=bare + "%zz") + b"\r\n" + body,
        "half a percent sign": head(length, path=bare + "%") + b"\r\n" + body,
        "UTF-8 that is none": head(length, path=bare + "%c0%af") + b"\r\n" + body,
        "dots": head(length, path="/../../etc/passwd") + b"\r\n" + body,
        "encoded dots": head(length, path="/%2e%2e/%2e%2e/etc/passwd") + b"\r\n" + body,
        "two slashes": head(length, path="/" + bare) + b"\r\n" + body,
        "a slash behind": head(length, path=bare.rstrip("/") + "//") + b"\r\n" + body,
        "a space in the path": head(length, path=bare + " x") + b"\r\n" + body,
        "bytes that are not ASCII": head(length, path=bare + "\xe9") + b"\r\n" + body,
        "another site's address": head(length, path="http://evil.example" + bare) + b"\r\n" + body,
        "a star": head(length, path="*") + b"\r\n" + body,
        "a huge path": head(length, path="/" + "x" * 100_000) + b"\r\n" + body,
        "a huge method": head(length, method="G" * 50_000) + b"\r\n" + body,
        "another method": head(length, method="BREW") + b"\r\n" + body,
        "CONNECT": head(method="CONNECT", path="evil.example:443") + b"\r\n",
        "TRACE": head(method="TRACE") + b"\r\n",
        "no host": f"POST {bare} HTTP/1.1\r\n{length}\r\n\r\n".encode() + body,
        "two hosts": head(length, f"Host: {target.netloc}") + b"\r\n" + body,
        "no host in 1.0": f"POST {bare} HTTP/1.0\r\n{length}\r\n\r\n".encode() + body,
        "two hosts in 1.0": head(length, "Host: evil.example", version="1.0") + b"\r\n" + body,
        "no version": f"GET {bare}\r\n\r\n".encode(),
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
        "noise": bytes(range(256)) * 16,
        "nothing but line ends": b"\r\n" * 2_000,
        "a websocket": head("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", method="GET")
        + b"\r\n",
    }


def _malformed_bodies(target: Target) -> dict[str, bytes]:
    head, chunked = target.head, target.chunked
    return {
        "a chunk's size in words": chunked(b"zz\r\nab\r\n0\r\n\r\n"),
        "a negative chunk": chunked(b"-1\r\nab\r\n0\r\n\r\n"),
        "a chunk of endless size": chunked(b"f" * 100 + b"\r\nab\r\n"),
        "a chunk longer than its size": chunked(b"1\r\nabc\r\n0\r\n\r\n"),
        "a chunk without end": chunked(b"5\r\nab"),
        "a huge chunk extension": chunked(b"2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n"),
        "a huge trailer": chunked(b"2\r\n{}\r\n0\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
        "a huge body": head("Content-Length: 20000000") + b"\r\n" + b"x" * 20_000_000,
        "a body that breaks off": head("Content-Length: 50") + b"\r\n{",
    }
