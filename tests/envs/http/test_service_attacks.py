"""Our servers under malformed requests: each is rejected, and well-formed ones are served."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.servers.adversary import Target, answers, ask, attempt, connect, malformed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# -- malformed requests -----------------------------------------------------------------------------------------------
WRONG = list(malformed(Target("http://127.0.0.1:1", "/x", b"{}")))


@pytest.mark.parametrize("what", WRONG)
def test_malformed_requests_are_rejected_and_the_next_one_is_served(what: str, target: Target) -> None:
    status = attempt(target.url, malformed(target)[what])
    assert status == 0 or 400 <= status < 500
    assert ask(target.url, target.good()) == target.wanted


@pytest.mark.parametrize("what", ["length and chunks", "chunks and length", "length, chunks, a second request"])
def test_two_lengths_of_one_body_are_rejected_and_nothing_after_them_is_read(what: str, target: Target) -> None:
    with connect(target.url) as sock:
        sock.sendall(malformed(target)[what])
        found = answers(sock, most=5)
    assert [status for status, _ in found] == [400]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_request_with_mutated_bytes_gets_a_response_or_is_dropped(data: st.DataObject, target: Target) -> None:
    whole = target.good() + target.chunked(b"2\r\n{}\r\n0\r\n\r\n")
    mutated = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        cut = data.draw(st.integers(0, 8))
        mutated[at : at + cut] = data.draw(st.binary(max_size=8) | st.sampled_from([b"\r\n", b"\r\n\r\n", b":", b"\0"]))
    assert attempt(target.url, bytes(mutated)) < 500
    assert ask(target.url, target.good()) == target.wanted


# -- well-formed requests ------------------------------------------------------------------------------------------------------
def test_http_1_0_gets_a_response_and_the_connection_is_closed(target: Target) -> None:
    with connect(target.url) as sock:
        sock.sendall(target.good(version="1.0"))
        assert [status for status, _ in answers(sock, most=2)] == [target.wanted]


def test_one_connection_serves_many_requests(target: Target) -> None:
    with connect(target.url) as sock:
        for _ in range(3):
            sock.sendall(target.good())
            assert answers(sock)[0][0] == target.wanted


def test_pipelined_requests_get_responses_in_order(target: Target) -> None:
    missing = target.head("Content-Length: 0", path="/nowhere") + b"\r\n"
    with connect(target.url) as sock:
        sock.sendall(target.good() + missing + target.good() + target.good("Connection: close") + target.good())
        found = answers(sock, most=9)
    assert [status for status, _ in found] == [target.wanted, 404, target.wanted, target.wanted]


def test_a_body_may_arrive_in_chunks_and_byte_by_byte(target: Target) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in target.body)
    assert ask(target.url, target.chunked(chunks, b"0\r\n\r\n")) == target.wanted
    with connect(target.url) as sock:
        for byte in target.good("Connection: close"):
            sock.sendall(bytes([byte]))
        assert answers(sock)[0][0] == target.wanted


def test_expect_100_continue_gets_a_response(target: Target) -> None:
    with connect(target.url) as sock:
        sock.sendall(target.head(f"Content-Length: {len(target.body)}", "Expect: 100-continue") + b"\r\n")
        assert sock.recv(65_536).startswith(b"HTTP/1.1 100")
        sock.sendall(target.body)
        assert answers(sock)[0][0] == target.wanted


def test_two_hundred_concurrent_posts_are_all_served(target: Target) -> None:
    gate = threading.Barrier(200)

    def one(_: int) -> int:
        gate.wait(30)
        return ask(target.url, target.good("Connection: close"))

    with ThreadPoolExecutor(200) as pool:
        assert set(pool.map(one, range(200))) == {target.wanted}


# -- hosts and origins ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "me@127.0.0.1", "127.0.0.1/x"]
)
def test_other_hosts_are_rejected(host: str, target: Target) -> None:
    assert ask(target.url, target.good(host=host)) == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"])
def test_pages_of_other_sites_are_rejected(origin: str, target: Target) -> None:
    plain = Target(target.url, target.path, target.body)
    assert ask(target.url, plain.good(f"Origin: {origin}")) == 403
    assert ask(target.url, plain.good(f"Origin: {origin}", f"Origin: {target.url}")) == 403
    assert ask(target.url, plain.good(f"Origin: {target.url}")) == target.wanted


def test_sec_fetch_site_of_other_sites_is_rejected(target: Target) -> None:
    assert ask(target.url, target.good("Sec-Fetch-Site: cross-site")) == 403
    assert ask(target.url, target.good("Sec-Fetch-Site: same-origin")) == target.wanted
