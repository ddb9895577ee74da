"""Host names that a server accepts: its own on loopback, addresses elsewhere, and those that were allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.http.callers import is_own_host


@pytest.mark.parametrize(
    ("host", "address", "allowed", "ours"),
    [
        ("127.0.0.1:80", "127.0.0.1", (), True),
        ("localhost", "127.0.0.1", (), True),  # port 80 is implied
        ("[::1]:80", "::1", (), True),
        ("127.0.0.1:80", "::ffff:127.0.0.1", (), True),
        ("127.0.0.5:80", "127.0.0.5", (), True),
        ("node7:80", "127.0.0.1", (), False),
        ("node7:80", "127.0.0.1", ("node7",), True),
        ("node7:9", "127.0.0.1", ("node7:80",), False),
        ("evil.example", "127.0.0.1", ("*",), True),
        ("10.0.0.5:80", "10.0.0.5", (), True),
        ("192.168.0.1:9000", "10.0.0.5", (), True),  # a forwarded port; no site has an address for a name
        ("[fe80::1]", "10.0.0.5", (), True),
        ("node7:80", "10.0.0.5", (), False),
        ("node7:80", "10.0.0.5", ("node7",), True),
        ("10.0.0.5.evil.example", "10.0.0.5", (), False),
        ("10.0.0.5:80x", "10.0.0.5", (), False),
        ("", "10.0.0.5", (), False),
        ("", "127.0.0.1", (), False),
        (":80", "127.0.0.1", (), False),
    ],
)
def test_own_hosts(host: str, address: str, allowed: tuple[str, ...], ours: bool) -> None:
    assert is_own_host(host, address, 80, frozenset(allowed)) is ours


@given(st.text(max_size=20), st.sampled_from(["127.0.0.1", "10.0.0.5", "::1", "", "t"]))
def test_any_host_string_is_classified(host: str, address: str) -> None:
    assert is_own_host(host, address, 80) in (True, False)
