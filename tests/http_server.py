"""An ASGI application on a free loopback port, for as long as a test needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The base URL under which the application is served; skips where uvicorn is missing."""
    uvicorn = pytest.importorskip("uvicorn", reason="a server needs the extra [serve]")
    # lifespan "on": a failing start is an error, not a server that hangs
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not (server.started and server.servers):
            assert thread.is_alive()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
