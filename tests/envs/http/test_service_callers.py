"""Host names that a server accepts: addresses, localhost, and those that were allowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.http.callers import KeyCheck, is_own_host
from creditflow.envs.http.credentials import ApiKey


@pytest.mark.parametrize(
    ("host", "allowed", "ours"),
    [
        ("127.0.0.1:80", (), True),
        ("localhost", (), True),
        ("localhost:8000", (), True),
        ("[::1]:80", (), True),
        ("10.0.0.5:80", (), True),  # no site has an address for a name
        ("[fe80::1]", (), True),
        ("node7:80", (), False),
        ("node7:80", ("node7",), True),
        ("node7:9", ("node7:80",), False),
        ("evil.example", ("*",), True),
        ("evil.example", (), False),
        ("10.0.0.5.evil.example", (), False),
        ("me@10.0.0.5", (), False),
        ("10.0.0.5:80x", (), False),
        ("10.0.0.5/x", (), False),
        ("localhost/x", (), False),
        ("", (), False),
        (":80", (), False),
    ],
)
def test_own_hosts(host: str, allowed: tuple[str, ...], ours: bool) -> None:
    assert is_own_host(host, frozenset(allowed)) is ours


@given(st.text(max_size=20))
def test_any_host_string_is_classified(host: str) -> None:
    assert is_own_host(host) in (True, False)


def responses(scope: dict[str, Any]) -> list[str]:
    """What an application behind a key sends; "answered" if it was reached."""
    sent: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "answered"})

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(str(message.get("status", message["type"])))

    asyncio.run(KeyCheck(app, ApiKey("open-sesame"))(scope, receive, send))
    return sent


@pytest.mark.parametrize(("kind", "refused"), [("http", "401"), ("websocket", "websocket.close")])
def test_a_request_or_websocket_needs_the_key(kind: str, refused: str) -> None:
    pytest.importorskip("starlette", reason="a server needs the extra [serve]")
    right = (b"authorization", b"Bearer open-sesame")
    assert responses({"type": kind, "headers": [right]}) == ["answered"]
    for headers in (
        [],
        [right, right],
        [(b"authorization", b"Bearer open-sesam")],
        [(b"authorization", b"open-sesame")],
        [(b"x-key", right[1])],
    ):
        assert responses({"type": kind, "headers": headers})[0] == refused


def test_the_start_of_an_application_needs_no_key() -> None:
    assert responses({"type": "lifespan"}) == ["answered"]
