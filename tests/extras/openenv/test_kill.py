"""A server that is killed: its clients get a clear error at once, and play on with the next one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from helpers.servers.env_server import env_server, free_url, start

pytestmark = pytest.mark.openenv


def test_a_killed_server_is_an_error_and_a_restarted_one_is_played_again(levels: Path) -> None:
    from websockets.exceptions import ConnectionClosed

    from creditflow.train.adapters.openenv.client import PlayClient

    url, arguments = free_url(), ("sokoban", "--env-set", f"levels={levels}")
    process = start(url, *arguments)
    try:
        with PlayClient(base_url=url).sync() as client:
            first = client.reset(seed=0).observation
            client.step("up")
            process.kill()
            process.wait()
            with pytest.raises((ConnectionClosed, ConnectionError)):
                client.step("up")
            with pytest.raises(ConnectionError, match="Failed to connect"):
                client.step("up")
            process = start(url, *arguments)
            with pytest.raises(RuntimeError, match=r"call reset\(\) before step\(\)"):
                client.step("up")  # the session is a new one: nothing is replayed silently
            assert client.reset(seed=0).observation == first
    finally:
        process.kill()
        process.wait()


def test_an_interrupted_server_ends_at_once_and_tells_its_clients(levels: Path) -> None:
    from websockets.exceptions import ConnectionClosed

    from creditflow.train.adapters.openenv.client import PlayClient

    with (
        env_server("sokoban", "--env-set", f"levels={levels}") as (url, process),
        PlayClient(base_url=url).sync() as client,
    ):
        client.reset(seed=0)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        with pytest.raises((ConnectionClosed, ConnectionError)):
            client.step("up")
