"""A server that is stopped while many clients ask ends within seconds, with no traceback."""

from __future__ import annotations

import signal

import pytest
from helpers.servers.load import require_ends_under_load

SEARCH = ["serve", "search", "--articles", "400", "--port"]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_a_server_under_load_answers_and_ends_at_once(sent: signal.Signals) -> None:
    pytest.importorskip("uvicorn", reason="the server needs the extra [serve]")
    require_ends_under_load(SEARCH, "retrieve", b'{"queries": ["a king of the north"]}', sent)
