"""Every server of ours under a hostile client: each attack is refused, ended in time, and others are answered meanwhile."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.servers.adversary import PATIENCE, Target, answers, ask, attempt, connect, ended, holding, malformed
from helpers.servers.http_server import served
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from creditflow.envs.http import ConnectionLimits, bodies
from creditflow.envs.wikisearch.retrieval.base import Hit, Passage

CONNECTIONS = 30
TIGHT = ConnectionLimits(
    connections=CONNECTIONS, header_seconds=1.0, body_seconds=1.0, idle_seconds=1.0, linger_seconds=0.5
)
LARGE = "long " * 4_000


class Engine:
    """Finds the same passage for everything."""

    digest = "stub"
    before: Callable[[], object] = staticmethod(lambda: None)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.before()
        return [[Hit(Passage("0", "Title", LARGE, "Title"), 1.0)] * k for _ in queries]

    def visit(self, ids: Sequence[str], goal: str = "") -> list[tuple[Passage, ...] | None]:
        return [None for _ in ids]

    def fetch(self, ids: Sequence[str]) -> list[Passage]:
        return []


class Rater:
    """Rates nothing that is sent here."""

    about = {"kind": "hazard", "model": "blake2b:0", "parameters": {}}

    def read_text(self, text: str) -> Any:
        return text

    def read_turns(self, turns: Any) -> Any:
        return turns

    def hazards(self, read: Sequence[Any]) -> list[Any]:
        return [np.zeros(1) for _ in read]

    def success(self, read: Sequence[Any]) -> list[Any]:
        return [np.zeros(1) for _ in read]


def search(engine: Engine | None = None) -> Any:
    from creditflow.envs.wikisearch.retrieval.server import create_app

    return create_app(engine or Engine())


def reward() -> Any:
    from creditflow.train.annotate.success.serving.server import create_reward_app

    return create_reward_app(Rater())


def shop() -> Any:
    from helpers.worlds.webshop_small import small_stock

    from creditflow.envs.webshop.env import WebShopEnv
    from creditflow.envs.webshop.pages.web import create_shop_app

    return create_shop_app(WebShopEnv(data=small_stock()), seed=3)


SERVERS: dict[str, tuple[Callable[..., Any], str, bytes, int]] = {
    "search": (search, "/retrieve", b'{"queries": ["a"]}', 200),
    "reward": (reward, "/get_reward", b'{"query": ["a"]}', 200),
    "shop": (shop, "/act", b"words=tent", 303),
}


@contextlib.contextmanager
def attacked(name: str, limits: ConnectionLimits | None = None, **options: Any) -> Iterator[Target]:
    pytest.importorskip("starlette", reason="the servers need the extra [serve]")
    make, path, body, wanted = SERVERS[name]
    with served(make(**options), limits) as url:
        yield Target(url, path, body, wanted, origin=url if name == "shop" else "")


@pytest.fixture(params=SERVERS, scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server with its usual limits."""
    with attacked(request.param) as found:
        yield found


@pytest.fixture(params=SERVERS, scope="module")
def tight(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server with few connections and little time."""
    with attacked(request.param, TIGHT) as found:
        yield found


# -- what is no request -----------------------------------------------------------------------------------------------
WRONG = list(malformed(Target("http://127.0.0.1:1", "/x", b"{}")))


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused_and_the_next_is_answered(what: str, target: Target) -> None:
    status = attempt(target.url, malformed(target)[what])
    assert status == 0 or 400 <= status < 500
    assert ask(target.url, target.good()) == target.wanted


@pytest.mark.parametrize("what", ["length and chunks", "chunks and length", "length, chunks, a second request"])
def test_two_lengths_of_one_body_are_refused_and_nothing_behind_them_is_read(what: str, target: Target) -> None:
    with connect(target.url) as sock:
        sock.sendall(malformed(target)[what])
        found = answers(sock, most=5)
    assert [status for status, _ in found] == [400]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_request_with_any_bytes_changed_is_answered_or_dropped(data: st.DataObject, target: Target) -> None:
    whole = target.good() + target.chunked(b"2\r\n{}\r\n0\r\n\r\n")
    mutated = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        cut = data.draw(st.integers(0, 8))
        mutated[at : at + cut] = data.draw(st.binary(max_size=8) | st.sampled_from([b"\r\n", b"\r\n\r\n", b":", b"\0"]))
    assert attempt(target.url, bytes(mutated)) < 500
    assert ask(target.url, target.good()) == target.wanted


# -- what is one ------------------------------------------------------------------------------------------------------
def test_http_1_0_is_answered_and_ended(target: Target) -> None:
    with connect(target.url) as sock:
        sock.sendall(target.good(version="1.0"))
        assert [status for status, _ in answers(sock, most=2)] == [target.wanted]


def test_one_connection_serves_many_requests(target: Target) -> None:
    with connect(target.url) as sock:
        for _ in range(3):
            sock.sendall(target.good())
            assert answers(sock)[0][0] == target.wanted


def test_requests_that_are_sent_at_once_are_answered_in_order(target: Target) -> None:
    missing = target.head("Content-Length: 0", path="/nowhere") + b"\r\n"
    with connect(target.url) as sock:
        sock.sendall(target.good() + missing + target.good() + target.good("Connection: close") + target.good())
        found = answers(sock, most=9)
    assert [status for status, _ in found] == [target.wanted, 404, target.wanted, target.wanted]


def test_what_follows_the_last_request_is_not_kept() -> None:
    gate = threading.Event()
    engine = Engine()
    engine.before = lambda: gate.wait(PATIENCE)
    with attacked("search", engine=engine) as target, connect(target.url) as sock:
        sock.sendall(target.good("Connection: close"))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(200):
            sock.sendall(b"x" * 1_000_000)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        gate.set()
        assert [status for status, _ in answers(sock, most=3)] == [200]
    assert grown < 100_000  # KiB


def test_a_body_may_come_in_chunks_and_byte_by_byte(target: Target) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in target.body)
    assert ask(target.url, target.chunked(chunks, b"0\r\n\r\n")) == target.wanted
    with connect(target.url) as sock:
        for byte in target.good("Connection: close"):
            sock.sendall(bytes([byte]))
        assert answers(sock)[0][0] == target.wanted


def test_whoever_waits_for_leave_to_send_gets_it(target: Target) -> None:
    with connect(target.url) as sock:
        sock.sendall(target.head(f"Content-Length: {len(target.body)}", "Expect: 100-continue") + b"\r\n")
        assert sock.recv(65_536).startswith(b"HTTP/1.1 100")
        sock.sendall(target.body)
        assert answers(sock)[0][0] == target.wanted


def test_two_hundred_posts_at_once_are_all_answered(target: Target) -> None:
    gate = threading.Barrier(200)

    def one(_: int) -> int:
        gate.wait(30)
        return ask(target.url, target.good("Connection: close"))

    with ThreadPoolExecutor(200) as pool:
        assert set(pool.map(one, range(200))) == {target.wanted}


def test_whoever_sends_too_much_reads_that_it_is_too_much(target: Target) -> None:
    """A socket that is closed with bytes unread resets the connection; the answer would be lost."""
    with connect(target.url) as sock:
        sock.sendall(target.head("Content-Length: 20000000") + b"\r\n" + b"x" * 20_000_000)
        assert answers(sock)[0][0] == 413


def test_the_rest_of_a_refused_body_is_no_request(target: Target) -> None:
    inside = target.good()
    with connect(target.url) as sock:
        sock.sendall(target.head(f"Content-Length: {len(inside) + 9}", path="/nowhere") + b"\r\n" + inside)
        assert [status for status, _ in answers(sock, most=3)] == [404]


# -- who asks ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:80", "127.0.0.1.evil.example"])
def test_other_hosts_are_refused(host: str, target: Target) -> None:
    assert ask(target.url, target.good(host=host)) == 421
    assert ask(target.url, target.good(host=f"{host}:{target.netloc.partition(':')[2]}")) in (400, 421, target.wanted)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"])
def test_pages_of_other_sites_are_refused(origin: str, target: Target) -> None:
    plain = Target(target.url, target.path, target.body)
    assert ask(target.url, plain.good(f"Origin: {origin}")) == 403
    assert ask(target.url, plain.good(f"Origin: {origin}", f"Origin: {target.url}")) == 403
    assert ask(target.url, plain.good(f"Origin: {target.url}")) == target.wanted


def test_what_a_browser_says_of_other_sites_is_heard(target: Target) -> None:
    if not target.origin:
        assert ask(target.url, target.good("Sec-Fetch-Site: cross-site")) == 403
        assert ask(target.url, target.good("Sec-Fetch-Site: same-origin")) == target.wanted


# -- who only holds connections ---------------------------------------------------------------------------------------
def half(target: Target) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "half a header": target.head("X-A: 1"),
        "half a body": target.head(f"Content-Length: {len(target.body)}") + b"\r\n" + target.body[:-1],
        "half a chunk": target.chunked(b"ff\r\n{"),
        "no next request": target.good(),
    }


@pytest.mark.parametrize("what", list(half(Target("http://x", "/", b"{}"))))
def test_a_good_client_is_answered_beside_more_idle_ones_than_there_is_room_for(what: str, tight: Target) -> None:
    with holding(tight.url, 2 * CONNECTIONS, half(tight)[what]):
        start = time.monotonic()
        assert [ask(tight.url, tight.good("Connection: close")) for _ in range(5)] == [tight.wanted] * 5
        assert time.monotonic() - start < PATIENCE


@pytest.mark.parametrize("what", list(half(Target("http://x", "/", b"{}"))))
def test_connections_that_say_nothing_more_are_ended(what: str, tight: Target) -> None:
    with holding(tight.url, 3, half(tight)[what]) as held:
        assert all(ended(sock, PATIENCE) is not None for sock in held)


@pytest.mark.parametrize("part", ["header", "body"])
def test_a_byte_now_and_then_gains_no_time(part: str, tight: Target) -> None:
    start = tight.head() if part == "header" else tight.head("Content-Length: 5000") + b"\r\n"
    over = time.monotonic() + PATIENCE
    with connect(tight.url) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(start)
        while time.monotonic() < over:
            sock.sendall(b"x")
            sock.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                if sock.recv(4096) == b"":
                    break
                break  # an answer: refused
    assert time.monotonic() < over


def test_clients_that_do_not_read_are_dropped_when_room_is_needed() -> None:
    limits = ConnectionLimits(connections=8)
    with attacked("search", limits) as target:
        large = Target(target.url, "/retrieve", b'{"queries": ["a", "b", "c", "d"], "topk": 100}')
        held = []
        for _ in range(8):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", int(target.netloc.partition(":")[2])))
            sock.sendall(large.good())
            held.append(sock)
        for sock in held:
            sock.recv(1)  # its answer has begun
        assert ask(target.url, target.good("Connection: close")) == 200
        for sock in held:
            sock.close()


def test_bodies_that_stall_leave_memory_for_those_that_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MIN_BODIES", 1)  # room for one body
    monkeypatch.setattr(bodies, "MAX_UNFINISHED", 1)
    with attacked("search") as target:
        start = target.head("Content-Length: 999000") + b"\r\n" + b" " * 600_000
        with holding(target.url, 4, start) as held:
            said = [ended(sock, PATIENCE) for sock in held[:-1]]
            assert [answer[:12] if answer else answer for answer in said] == [b"HTTP/1.1 408"] * 3
            assert ask(target.url, target.good()) == 200
