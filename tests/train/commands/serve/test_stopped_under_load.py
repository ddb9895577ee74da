"""Servers of commands that are stopped while many clients ask: they end within seconds, with no traceback."""

from __future__ import annotations

import signal

import pytest
from helpers.servers.load import require_ends_under_load

SERVERS = {
    "search": (["serve-search", "--articles", "400", "--port"], "retrieve", b'{"queries": ["a king of the north"]}'),
    "shop": (["play", "--env", "webshop", "--port"], "", None),
}


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
@pytest.mark.parametrize("name", SERVERS)
def test_a_server_under_load_answers_and_ends_at_once(name: str, sent: signal.Signals) -> None:
    pytest.importorskip("uvicorn", reason="the server needs the extra [serve]")
    words, path, body = SERVERS[name]
    require_ends_under_load(words, path, body, sent)
