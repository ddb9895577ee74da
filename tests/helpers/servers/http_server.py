"""An ASGI application on a free loopback port, for as long as a test needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from creditflow.envs.http import bound, make_server, url_of


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The base URL under which the application is served; skips where uvicorn is missing."""
    pytest.importorskip("uvicorn", reason="a server needs the extra [serve]")
    sock = bound(0)
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        yield url_of(sock).rstrip("/")
    finally:
        server.should_exit = True
        thread.join()
        sock.close()
