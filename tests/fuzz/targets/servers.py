"""Requests to the servers as raw bytes over a socket: the search server.

A server may reject a request or close the connection. It must not respond 500, die, or stop serving others. Each runs by
its command in a process of its own, on loopback, with limited memory.
"""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from fuzz.mutate_bytes import below, mutate_bytes, pick
from fuzz.mutate_data import freeze, mutate_json
from fuzz.target import MismatchError, Target

PATIENCE = 40.0  # seconds after which a server must respond to another client
REJECTED = b"@rejected\n"  # a trap to which the response must not be a success
MANY = b"@many:"  # a trap: this many concurrent posts
COMMANDS = {"search": ("-m", "creditflow.train", "serve", "search", "--articles", "300", "--port", "PORT")}
_RUNNING: dict[str, tuple[subprocess.Popen[bytes], int]] = {}


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _start(name: str) -> None:
    """Start a server and wait until it responds."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [word.replace("PORT", str(port)) for word in COMMANDS[name]]
    process = subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=_limits,
    )  # fmt: skip
    _RUNNING[name] = process, port
    until = time.monotonic() + 60.0
    while _health(name, 2.0) != 200:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the {name} server does not start")
        time.sleep(0.1)


def _stop(name: str) -> Callable[[], None]:
    def stop() -> None:
        if name in _RUNNING:
            process, _ = _RUNNING.pop(name)
            process.kill()
            process.wait()

    return stop


def exchange(port: int, data: bytes, seconds: float) -> bytes:
    """Return the bytes received until the server closes, sends nothing for ``seconds``, or has sent a whole response."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            connection.sendall(data)
            while piece := connection.recv(1 << 16):
                received += piece
                if _whole(received):
                    break
        except OSError:
            return received
    return received


def _whole(received: bytes) -> bool:
    """Return whether the bytes contain a whole response, by its Content-Length."""
    head, sign, body = received.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(sign and lengths) and len(body) >= int(lengths[0].split(b":")[1])


def status(received: bytes) -> int:
    """Return the status code of a response; 0 if there is none."""
    words = received.split(b" ", 2)
    return int(words[1]) if received.startswith(b"HTTP/") and len(words) > 1 and words[1].isdigit() else 0


def _health(name: str, seconds: float) -> int:
    _, port = _RUNNING[name]
    ask = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
    try:
        return status(exchange(port, ask, seconds))
    except OSError:
        return 0


def _check_alive(name: str) -> None:
    process, _ = _RUNNING[name]
    until = time.monotonic() + PATIENCE
    while _health(name, 5.0) != 200:
        if Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z":
            raise MismatchError(f"the {name} server died")  # its parent is another process, which reaps it later
        if time.monotonic() > until:
            raise MismatchError(f"the {name} server no longer responds")


def _read(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, _: Path) -> None:
        port = _RUNNING[name][1]
        place = f"127.0.0.1:{port}".encode()
        if data.startswith(MANY):
            _many(port, int(data.removeprefix(MANY)), _requests(name)[0].replace(b"PLACE", place))
        else:
            request = data.removeprefix(REJECTED).replace(b"PLACE", place)
            received = exchange(port, request, 1.0)
            if received and not received.startswith(b"HTTP/"):
                raise MismatchError(f"the {name} server sent {received[:80]!r}")
            if status(received) == 500 or (data.startswith(REJECTED) and 200 <= status(received) < 400):
                raise MismatchError(f"the {name} server responded {status(received)} to {request[:80]!r}")
        _check_alive(name)

    return read


def _many(port: int, count: int, request: bytes) -> None:
    """Send concurrent posts; each must get a response, which may be a rejection."""
    with ExitStack() as stack:
        connections = [stack.enter_context(socket.socket()) for _ in range(count)]
        for connection in connections:
            connection.settimeout(20.0)
            connection.connect(("127.0.0.1", port))
        for connection in connections:
            connection.sendall(request)
        for number, connection in enumerate(connections):
            try:
                received = connection.recv(1 << 12)
            except OSError as error:
                raise MismatchError(f"post {number} of {count} concurrent ones got {error!r}") from error
            if not status(received):
                raise MismatchError(f"post {number} of {count} concurrent ones got no response")


# -- samples ---------------------------------------------------------------------------------------------------------
BODIES = {
    "search": (
        ("/retrieve", {"queries": ["old town", "x"], "topk": 2, "return_scores": True}),
        ("/retrieve", {"query": "old town", "topk": 2}),
        ("/access", {"urls": ["Elm", "http://x/y?title=Elm"]}),
    )
}


def _post(path: str, body: bytes, *headers: bytes) -> bytes:
    lines = [b"POST " + path.encode() + b" HTTP/1.1", b"Host: PLACE", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _requests(name: str) -> list[bytes]:
    """Return valid requests; PLACE stands for the server's address."""
    return [_post(path, freeze(body), b"Content-Type: application/json") for path, body in BODIES[name]]


def _mutate(name: str) -> Callable[[np.random.Generator, Sequence[bytes]], bytes]:
    def mutate(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
        """Damage the whole request, or the body under a correct Content-Length."""
        if below(rng, 3) == 0:
            whole = mutate_bytes(rng, samples)
            return whole if whole.count(b"\r\n\r\n") else whole + b"\r\n\r\n"
        path, body = pick(rng, BODIES[name])
        return _post(path, mutate_json(rng, [freeze(body)]))

    return mutate


def _seeds(name: str) -> Callable[[Path], Sequence[bytes]]:
    def make(_: Path) -> Sequence[bytes]:
        _start(name)
        return _requests(name)

    return make


def _traps(name: str) -> Callable[[], Sequence[bytes]]:
    def make() -> Sequence[bytes]:
        first = _requests(name)[0]
        head, _, body = first.partition(b"\r\n\r\n")
        chunked = b"\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
        return [
            REJECTED + first.replace(b"Host: PLACE", b"Host: evil.example"),
            REJECTED + first.replace(b"Host: PLACE\r\n", b""),
            REJECTED + first.replace(b"Host: PLACE", b"Host: PLACE\r\nHost: evil.example"),
            REJECTED + first.replace(b"\r\n\r\n", b"\r\nOrigin: http://evil.example\r\n\r\n", 1),
            REJECTED + first.replace(b"\r\n\r\n", b"\r\nOrigin: null\r\n\r\n", 1),
            REJECTED + head + chunked,
            REJECTED + first.replace(b"Content-Length: ", b"Content-Length: 3\r\nContent-Length: "),
            REJECTED + first.replace(b"Content-Length: ", b"Content-Length: -"),
            REJECTED + first.replace(b"Content-Length: ", b"Content-Length: +"),
            REJECTED + first.replace(b"Content-Length: ", b"Content-Length: 9999999999999999999999"),
            REJECTED + _post("/retrieve", b"[" * 200_000),
            REJECTED + _post("/retrieve", b'{"queries": ["x"], "topk": ' + b"9" * 5000 + b"}"),
            first.replace(b" HTTP/1.1", b" HTTP/1.1\r\n" + b"X: y\r\n" * 5000, 1),
            first.replace(b" HTTP/1.1", b"a" * 200_000 + b" HTTP/1.1", 1),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + b"\r\n\r\n",
            b"\0" * 100_000,
            b"GET / HTTP/0.9\r\n\r\n",
            MANY + b"200",
        ]

    return make


TARGETS = tuple(
    Target(
        name=f"servers/{name}", read=_read(name), seeds=_seeds(name), mutate=_mutate(name), traps=_traps(name), cases=30,
        needs=("uvicorn", "starlette"), close=_stop(name), seconds=30.0,
    )
    for name in COMMANDS
)  # fmt: skip
