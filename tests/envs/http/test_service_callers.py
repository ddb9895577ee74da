"""Whom a server answers: its own hosts and pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.servers.http_server import served
from helpers.servers.raw_http import ask, post
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.http.callers import is_own_host, rejection
from creditflow.envs.wikisearch.retrieval.base import MemoryCorpus, Passage
from creditflow.envs.wikisearch.retrieval.local import index_passages


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:80", True),
        ("localhost", True),
        ("localhost:8000", True),
        ("[::1]:80", True),
        ("10.0.0.5:80", True),  # no site has an address for a name
        ("[fe80::1]", True),
        ("node7:80", False),
        ("evil.example", False),
        ("10.0.0.5.evil.example", False),
        ("me@10.0.0.5", False),
        ("10.0.0.5:80x", False),
        ("10.0.0.5/x", False),
        ("localhost/x", False),
        ("", False),
        (":80", False),
    ],
)
def test_own_hosts(host: str, ours: bool) -> None:
    assert is_own_host(host) is ours


@given(st.text(max_size=20))
def test_any_host_string_is_classified(host: str) -> None:
    assert is_own_host(host) in (True, False)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"localhost")], None),
        ([], 421),
        ([(b"host", b"localhost"), (b"host", b"localhost")], 421),
        ([(b"host", b"localhost"), (b"host", b"evil.example")], 421),
        ([(b"host", b"localhost"), (b"transfer-encoding", b"chunked")], None),
        ([(b"host", b"localhost"), (b"content-length", b"2"), (b"transfer-encoding", b"chunked")], 400),
        ([(b"host", b"localhost"), (b"transfer-encoding", b"chunked"), (b"content-length", b"2")], 400),
    ],
)
def test_a_header_has_one_host_and_one_length(headers: list[tuple[bytes, bytes]], status: int | None) -> None:
    found = rejection({"type": "http", "headers": headers})
    assert (found and found[0]) == status


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The search server over one passage."""
    pytest.importorskip("starlette", reason="the servers need the extra [serve]")
    from creditflow.envs.wikisearch.retrieval.server import create_app

    with served(create_app(index_passages(MemoryCorpus([Passage("0", "Town", "One cat.", "Town")])))) as url:
        yield url


def status(server: str, *lines: str, host: str = "") -> int:
    return ask(server, post(server, "/retrieve", b'{"queries": ["a"]}', *lines, host=host))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "me@127.0.0.1", "127.0.0.1/x"]
)
def test_other_hosts_are_rejected(host: str, server: str) -> None:
    assert status(server, host=host) == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"])
def test_pages_of_other_sites_are_rejected(origin: str, server: str) -> None:
    assert status(server, f"Origin: {origin}") == 403
    assert status(server, f"Origin: {origin}", f"Origin: {server}") == 403
    assert status(server, f"Origin: {server}") == 200


def test_sec_fetch_site_of_other_sites_is_rejected(server: str) -> None:
    assert status(server, "Sec-Fetch-Site: cross-site") == 403
    assert status(server, "Sec-Fetch-Site: same-origin") == 200
