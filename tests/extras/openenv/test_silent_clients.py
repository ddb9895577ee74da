"""A client that never reads, and leaves in whatever way, costs the server its session and no line of its log."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

import pytest
from helpers.servers.env_server import env_server, open_files
from helpers.servers.openenv_link import address, handshake, plays

pytestmark = pytest.mark.openenv


def frame(text: str) -> bytes:
    """A masked text frame of a client."""
    data = text.encode()
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
    return b"\x81" + size + b"\0\0\0\0" + data


def never_reading(url: str) -> socket.socket:
    """A client that sends until the server, whose answers nobody reads, takes nothing more."""
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect(address(url))
    link.sendall(handshake(url))
    assert link.recv(12) == b"HTTP/1.1 101"
    link.settimeout(2)
    with pytest.raises(TimeoutError):
        link.sendall(frame('{"type": "reset", "data": {"seed": 0}}'))
        while True:
            link.sendall(100 * frame('{"type": "state"}'))
    return link


@pytest.mark.parametrize("leaving", ["close", "reset", "shutdown"])
def test_a_client_that_never_reads_leaves_no_traceback(leaving: str, tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with log.open("wb") as stream, env_server("sokoban", errors=stream) as (url, process):
        assert plays(url)
        before = open_files(process)
        link = never_reading(url)
        if leaving == "reset":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif leaving == "shutdown":
            link.shutdown(socket.SHUT_WR)
        link.close()
        while open_files(process) > before:
            time.sleep(0.05)
        assert plays(url)
        assert process.poll() is None
    assert log.read_text() in ("", "\ninterrupted\n")


@pytest.mark.parametrize("frames", [0, 1])  # alone, and while answers to earlier messages are due
def test_a_text_that_is_no_unicode_closes_the_connection_and_leaves_no_traceback(frames: int, tmp_path: Path) -> None:
    log = tmp_path / "stderr"
    with log.open("wb") as stream, env_server("sokoban", errors=stream) as (url, _):
        with socket.create_connection(address(url), timeout=20) as link:
            link.sendall(handshake(url))
            assert link.recv(4096).startswith(b"HTTP/1.1 101")
            messages = b"".join(map(frame, ['{"type": "reset", "data": {"seed": 0}}', *['{"type": "state"}'] * 9]))
            link.sendall(frames * messages + b"\x81\x82\0\0\0\0\xff\xfe")
            received = b""
            while piece := link.recv(65_536):
                received += piece
            assert struct.pack(">H", 1007) + b"a text message is UTF-8" in received
        assert plays(url)
    assert log.read_text() == ""
