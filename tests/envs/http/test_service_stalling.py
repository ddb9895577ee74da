"""Our servers under clients that only hold connections: they are closed in time, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from http.client import HTTPException, HTTPResponse
from typing import Any

import pytest
from helpers.servers.adversary import PATIENCE, Target, answers, ask, connect, ended, holding
from helpers.servers.attacked import CONNECTIONS, attacked
from helpers.servers.http_server import served

from creditflow.envs.http import ConnectionLimits, bodies


def half(target: Target) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "half a header": target.head("X-A: 1"),
        "half a body": target.head(f"Content-Length: {len(target.body)}") + b"\r\n" + target.body[:-1],
        "half a chunk": target.chunked(b"ff\r\n{"),
        "no next request": target.good(),
    }


@pytest.mark.parametrize("what", list(half(Target("http://x", "/", b"{}"))))
def test_a_good_client_is_served_next_to_more_idle_connections_than_the_limit(what: str, tight: Target) -> None:
    with holding(tight.url, 2 * CONNECTIONS, half(tight)[what]) as held:
        if what == "no next request":  # a connection is idle once its request is answered
            for sock in held:
                with contextlib.suppress(ConnectionError, HTTPException):
                    response = HTTPResponse(sock)
                    response.begin()
                    response.read()
        start = time.monotonic()
        assert [ask(tight.url, tight.good("Connection: close")) for _ in range(5)] == [tight.wanted] * 5
        assert time.monotonic() - start < PATIENCE


class Waiting:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.entered, self.free = 0, threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request, or the start and the end of the server."""
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        self.entered += 1
        while not self.free.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def test_refused_connections_that_are_still_open_leave_room_for_good_clients() -> None:
    pytest.importorskip("h11", reason="the servers need the extra [serve]")
    app = Waiting()
    with served(app, ConnectionLimits(connections=4, linger_seconds=60.0)) as url:  # refused ones stay throughout
        good = Target(url, "/", b"").good("Connection: close")
        with holding(url, 4, good) as busy:
            while app.entered < 4:
                time.sleep(0.01)
            with connect(url) as first, connect(url) as second, connect(url) as third:
                assert third.recv(12) == b"HTTP/1.1 503"
                app.free.set()
                assert [answers(sock)[0][0] for sock in busy] == [200] * 4
                assert [ask(url, good) for _ in range(5)] == [200] * 5
                assert first.fileno() != second.fileno() != -1, "still open on our side"


@pytest.mark.parametrize("what", list(half(Target("http://x", "/", b"{}"))))
def test_stalled_connections_are_closed(what: str, tight: Target) -> None:
    with holding(tight.url, 3, half(tight)[what]) as held:
        assert all(ended(sock, PATIENCE) is not None for sock in held)


@pytest.mark.parametrize("part", ["header", "body"])
def test_slow_bytes_do_not_extend_the_deadline(part: str, tight: Target) -> None:
    start = tight.head() if part == "header" else tight.head("Content-Length: 5000") + b"\r\n"
    over = time.monotonic() + PATIENCE
    with connect(tight.url) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(start)
        while time.monotonic() < over:
            sock.sendall(b"x")
            sock.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                if sock.recv(4096) == b"":
                    break
                break  # a response: rejected
    assert time.monotonic() < over


def test_clients_that_do_not_read_are_dropped_when_connections_run_out() -> None:
    limits = ConnectionLimits(connections=8)
    with attacked("search", limits) as target:
        large = Target(target.url, "/retrieve", b'{"queries": ["a", "b", "c", "d"], "topk": 100}')
        held = []
        for _ in range(8):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", int(target.netloc.partition(":")[2])))
            sock.sendall(large.good())
            held.append(sock)
        for sock in held:
            sock.recv(1)  # its response has begun
        assert ask(target.url, target.good("Connection: close")) == 200
        for sock in held:
            sock.close()


def test_stalled_bodies_are_dropped_when_their_memory_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MIN_BODIES", 1)  # room for one body
    monkeypatch.setattr(bodies, "MAX_UNFINISHED", 1)
    with attacked("search") as target:
        start = target.head("Content-Length: 999000") + b"\r\n" + b" " * 600_000
        with holding(target.url, 4, start) as held:
            responses = [ended(sock, PATIENCE) for sock in held[:-1]]
            assert [response[:12] if response else response for response in responses] == [b"HTTP/1.1 408"] * 3
            assert ask(target.url, target.good()) == 200
