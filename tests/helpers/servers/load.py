"""A server command that is stopped while many clients ask it without pause."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from helpers.servers.raw_http import connect

from creditflow.envs.http import bound, url_of

CLIENTS = 30
# a shell's background jobs ignore SIGINT, and their child processes inherit that
CODE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from creditflow.train.cli import main; sys.exit(main(sys.argv[1:]))"
)


def require_ends_under_load(words: list[str], path: str, body: bytes | None, sent: signal.Signals) -> None:
    """Check that a server answers all clients, and that a signal ends it within seconds, without a traceback.

    Args:
        words: the command; the port follows.
        path: what clients ask for.
        body: what they post; None to get.
        sent: the signal.
    """
    with bound(0) as free:
        url = url_of(free).rstrip("/")
    command = [sys.executable, "-c", CODE, *words, url.rpartition(":")[2]]
    answered, stop = [0] * CLIENTS, threading.Event()

    def ask(number: int) -> None:
        while not stop.is_set():
            connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
            try:
                connection.request("POST" if body else "GET", f"/{path}", body, {"Content-Type": "application/json"})
                answered[number] += connection.getresponse().status == 200
            except (http.client.HTTPException, OSError):
                time.sleep(0.05)
            finally:
                connection.close()

    stalled: list[socket.socket] = []
    clients = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            for client in clients:
                client.start()
            deadline = time.monotonic() + 120
            while min(answered) == 0 and time.monotonic() < deadline:
                assert process.poll() is None, process.communicate()[1].decode()
                time.sleep(0.05)
            stalled += [connect(url) for _ in range(10)]  # they send nothing
            process.send_signal(sent)
            errors = process.communicate(timeout=30)[1].decode()
        finally:
            process.kill()
            stop.set()
            for client in clients:
                client.join()
            for connection in stalled:
                connection.close()
    assert min(answered) > 0
    assert process.returncode == (130 if sent == signal.SIGINT else -signal.SIGTERM)
    assert "Traceback" not in errors
    with pytest.raises(OSError, match="refused"):
        connect(url)
