"""Sessions of ``serve env``: messages over its WebSocket, and bytes that are none, from clients that leave as they like.

The server may answer with an error or close the connection. It must not die, stop serving others, or write a traceback.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from creditflow.envs.http import bound, url_of
from fuzz.mutate_bytes import below, mutate_bytes
from fuzz.mutate_data import mutate_lines
from fuzz.target import MismatchError, Target

RAW = b"@raw\n"  # a case that is sent as bytes behind the handshake, not as messages
SILENT = b"@silent\n"  # a case whose client never reads
PATIENCE = 40.0  # seconds after which a server must play with another client
MESSAGES = (
    {"type": "reset", "data": {"seed": 3}},
    {"type": "step", "data": {"action": "up"}},
    {"type": "state"},
    {"type": "step", "data": {"action": "x"}},
    {"type": "reset", "data": {"split": "test", "index": 1}},
    {"type": "close"},
)
_RUNNING: dict[str, object] = {}


def _frame(text: bytes, kind: int = 0x81) -> bytes:
    """A masked frame of a client."""
    size = len(text)
    if size < 126:
        head = bytes([0x80 | size])
    else:
        head = b"\xfe" + struct.pack(">H", size) if size < 65_536 else b"\xff" + struct.pack(">Q", size)
    return bytes([kind]) + head + bytes(4) + text


def _connect() -> socket.socket:
    port = _RUNNING["port"]
    link = socket.create_connection(("127.0.0.1", int(str(port))), timeout=5.0)
    lines = (
        "GET /ws HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    )  # fmt: skip
    link.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = link.recv(1)
        if not piece:
            raise OSError("the server closed the connection during the handshake")
        head += piece
    return link


def _plays() -> bool:
    """Whether a newcomer can begin an episode."""
    with suppress(OSError), _connect() as link:
        link.sendall(_frame(json.dumps(MESSAGES[0]).encode()))
        return b"observation" in link.recv(65_536)
    return False


def _seeds(_: Path) -> Sequence[bytes]:
    with bound(0) as free:
        port = url_of(free).rstrip("/").rpartition(":")[2]
    log = Path(tempfile.mkstemp(prefix="fuzz-sessions-")[1])
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "creditflow.train", "serve", "env", "sokoban", "--panel", "standard-v1", "--port", port],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream,
        )  # fmt: skip
    _RUNNING.update(port=port, process=process, log=log)
    until = time.monotonic() + PATIENCE
    while not _plays():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"serve env does not start: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.1)
    lines = [json.dumps(message).encode() for message in MESSAGES]
    return [b"\n".join(lines), b"\n".join(lines[:3]), RAW + b"".join(map(_frame, lines[:2]))]


def _close() -> None:
    process, log = _RUNNING.pop("process", None), _RUNNING.pop("log", None)
    if isinstance(process, subprocess.Popen):
        process.kill()
        process.wait()
    if isinstance(log, Path):
        log.unlink(missing_ok=True)


def _read(data: bytes, _: Path) -> None:
    silent = data.startswith(SILENT)
    raw = data.startswith(RAW)
    body = data.removeprefix(SILENT).removeprefix(RAW)
    pieces = [body] if raw else [_frame(line) for line in body.split(b"\n")[:40]]
    with suppress(OSError), _connect() as link:
        link.settimeout(0.2)
        for piece in pieces * (2_000 if silent else 1):
            link.sendall(piece)
        with suppress(TimeoutError):
            while not silent and link.recv(65_536):
                pass
    until = time.monotonic() + PATIENCE
    while not _plays():
        if time.monotonic() > until:
            raise MismatchError("serve env no longer plays with others")
    log = _RUNNING["log"]
    assert isinstance(log, Path)
    if written := log.read_text(encoding="utf-8", errors="replace"):
        os.truncate(log, 0)  # the next case begins with an empty log
        raise MismatchError(f"serve env wrote into its log: {written[:2000]!r}")


def _mutate(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
    messages = [sample for sample in samples if not sample.startswith(RAW)]
    if below(rng, 3) == 0:
        return RAW + mutate_bytes(rng, [sample.removeprefix(RAW) for sample in samples if sample.startswith(RAW)])
    return mutate_lines(rng, messages).replace(b"\r", b"")


def _traps() -> Sequence[bytes]:
    reset, step = (json.dumps(message).encode() for message in MESSAGES[:2])
    return [
        SILENT + b"\n".join([reset, b'{"type": "state"}']),
        SILENT + RAW + _frame(b"ping", 0x89),
        RAW + _frame(reset)[:-3], RAW + b"\xff" * 2_000, RAW + _frame(b"\xff\xfe", 0x81), RAW + _frame(b"x" * 126, 0x89),
        RAW + b"\x81\xff" + struct.pack(">Q", 2**62) + bytes(4), RAW + b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 3_000,
        RAW + _frame(struct.pack(">H", 1000), 0x88) + _frame(step), RAW + _frame(struct.pack(">H", 99), 0x88),
        b"[" * 200_000, b'{"type":' * 10_000, step, b"null\n" * 30, b"\n".join([reset] * 30),
        b'{"type": "step", "data": {"action": "' + b"u" * 2_000_000 + b'"}}',
    ]  # fmt: skip


TARGETS = (
    Target(
        name="sessions/serve env", read=_read, seeds=_seeds, mutate=_mutate, traps=_traps, cases=120,
        needs=("openenv", "uvicorn", "websockets"), close=_close, seconds=30.0,
    ),
)  # fmt: skip
