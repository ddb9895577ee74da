"""The HTTP client, against servers that are unreachable, slow, overloaded, or send what is not plain JSON."""

import json
import threading
from typing import Any

import pytest
from helpers.servers.loopback import Exchange
from helpers.servers.replies import Answer, replying, serving
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, ServiceError
from creditflow.envs.http.client import JsonClient

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**90), 10**90) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
NOT_PLAIN = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1" * 101,
    "9" * 5000,
    '{"a": 1, "a": 2}',
    "[" * 100 + "]" * 100,
)


def test_a_client_returns_plain_data_and_nothing_else() -> None:
    """The client never returns a number or an object that a reader could misinterpret."""
    sent = [b""]

    def answer(handler: Exchange, _: Any) -> None:
        replying(sent[0])(handler, None)

    with serving(answer) as url:
        client = JsonClient([url], max_attempts=1)

        @settings(max_examples=60)
        @given(PLAIN, st.sampled_from(["", *NOT_PLAIN]))
        def exchange(value: Any, odd: str) -> None:
            sent[0] = json.dumps([value, "odd"]).replace('"odd"', odd or '"odd"').encode()
            if odd:
                with pytest.raises(ServiceError, match="the response"):
                    client.post("/", {})
            else:
                assert client.post("/", {}) == [value, "odd"]

        exchange()


def test_an_endless_response_is_cut_at_the_limit() -> None:
    def answer(handler: Exchange, _: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * 65_536)

    with serving(answer) as url, pytest.raises(ServiceError, match="larger than"):
        JsonClient([url], max_attempts=1, max_bytes=1_000_000).post("/retrieve", {})


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_server_that_sends_byte_by_byte_times_out_at_the_deadline(part: str) -> None:
    over = threading.Event()

    def answer(handler: Exchange, _: Any) -> None:
        if part == "body":
            handler.send_response(200)
            handler.end_headers()
        while not over.wait(0.02):
            handler.wfile.write(b"X")

    with serving(answer) as url:
        with pytest.raises(ServiceError, match="within"):  # without the deadline it would never end
            JsonClient([url], timeout=0.3, max_attempts=1).post("/retrieve", {})
        over.set()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e12])
def test_a_timeout_that_no_timer_takes_is_an_error_at_once(seconds: float) -> None:
    with pytest.raises(ConfigError, match="a timeout above 0 and at most 86,400 s"):
        JsonClient(["http://127.0.0.1:9"], timeout=seconds)


def test_an_unreachable_server_is_retried_with_growing_pauses_and_then_reported() -> None:
    pauses: list[float] = []
    client = JsonClient(["http://127.0.0.1:9"], max_attempts=4, backoff=0.5, sleep=pauses.append)
    with pytest.raises(ServiceError, match=r"127.0.0.1:9/retrieve: ConnectionRefusedError"):
        client.post("/retrieve", {})
    assert pauses == [0.5, 1.0, 2.0]


def test_a_rejected_request_is_not_repeated_but_one_to_an_overloaded_server_is() -> None:
    asked: list[int] = []

    def answering(status: int) -> Answer:
        def answer(handler: Exchange, body: Any) -> None:
            asked.append(status)
            replying({}, status)(handler, body)

        return answer

    for status, times in ((422, 1), (503, 3)):
        asked.clear()
        with serving(answering(status)) as url, pytest.raises(ServiceError, match=f"status {status}"):
            JsonClient([url], max_attempts=3, backoff=0.0).post("/x", {})
        assert len(asked) == times
