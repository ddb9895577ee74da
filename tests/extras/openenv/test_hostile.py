"""Every malformed request gets a clear error, others play on, and memory stays bounded."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
import requests
from helpers.servers.env_server import env_server, resident_mb
from helpers.servers.openenv_link import address, ask, connected, handshake, plays, reset
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.openenv

MEBIBYTE = 2**20
LONE = '{"type": "step", "data": {"action": "\\ud800"}}'


@pytest.mark.parametrize(
    ("message", "code", "said"),
    [
        ("{", "INVALID_JSON", "must be JSON"),
        ("", "INVALID_JSON", "must be JSON"),
        ("[" * 100_000, "INVALID_JSON", "nested too deeply"),
        ('{"type": "state", "n": ' + "1" * 10_000 + "}", "INVALID_JSON", "digits"),
        ('{"type": "state", "n": NaN}', "INVALID_JSON", "NaN"),
        ('{"type": "state", "type": "close"}', "INVALID_JSON", "twice"),
        (LONE, "INVALID_JSON", "surrogate"),
        (b"\x00\xff", "INVALID_JSON", "binary"),
        ("[]", "VALIDATION_ERROR", "an object, got list"),
        ("null", "VALIDATION_ERROR", "an object, got NoneType"),
        ({"type": "fly"}, "UNKNOWN_TYPE", "one of reset, step"),
        ({"type": ["step"]}, "UNKNOWN_TYPE", "one of reset, step"),
        ({}, "UNKNOWN_TYPE", "one of reset, step"),
        ({"type": "step", "data": "up"}, "VALIDATION_ERROR", "Invalid message"),
        ({"type": "step", "data": {}}, "VALIDATION_ERROR", "Invalid message"),
        ({"type": "step", "data": {"action": 3}}, "VALIDATION_ERROR", "Invalid message"),
        ({"type": "step", "data": {"action": "up", "fast": 1}}, "VALIDATION_ERROR", "Invalid message"),
        ({"type": "step", "data": {"action": "x" * 65_537}}, "VALIDATION_ERROR", "Invalid message"),
        (reset(seed=-1), "EXECUTION_ERROR", "seed must be an integer from 0"),
        (reset(seed="1"), "EXECUTION_ERROR", "seed must be an integer from 0"),
        (reset(seed=True), "EXECUTION_ERROR", "seed must be an integer from 0"),
        (reset(seed=2**63), "EXECUTION_ERROR", "seed must be an integer from 0"),
        (reset(episode_id="x" * 256), "EXECUTION_ERROR", "at most 255 characters"),
        (reset(task_ids="a"), "EXECUTION_ERROR", "did you mean 'task_id'"),
        (reset(task_id=3), "EXECUTION_ERROR", "must be a string"),
        (reset(task_id="sokoban1:0"), "EXECUTION_ERROR", "is not among the 420 tasks"),
        (reset(task={"xsb": "#"}), "EXECUTION_ERROR", ""),
        (reset(split="test"), "EXECUTION_ERROR", "split and index together"),
        (reset(split="test", index=60), "EXECUTION_ERROR", "tasks 0 to 59"),
        (reset(split="test", index=-1), "EXECUTION_ERROR", "tasks 0 to 59"),
        (reset(split="tset", index=0), "EXECUTION_ERROR", "did you mean 'test'"),
        (reset(split=["test"], index=0), "EXECUTION_ERROR", "split"),
        (reset(injected_state="{}"), "EXECUTION_ERROR", "snapshot"),
        (reset(injected_state={}), "EXECUTION_ERROR", "text of a snapshot"),
        (reset(injected_state="{}", seed=1), "EXECUTION_ERROR", "give no seed"),
    ],
)  # fmt: skip
def test_a_malformed_message_gets_a_clear_error_and_the_session_goes_on(
    sokoban: Any, message: Any, code: str, said: str
) -> None:
    with connected(sokoban[0]) as link:
        before = ask(link, reset(seed=1))["data"]["observation"]["state_key"]
        answer = ask(link, message)
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert said in answer["data"]["message"]
        assert len(answer["data"]["message"]) < 5_000
        assert ask(link, {"type": "state"})["data"]["state_key"] == before
        assert ask(link, {"type": "step", "data": {"action": "up"}})["type"] == "observation"


def test_a_step_before_the_start_or_after_the_end_is_an_error(levels: Any) -> None:
    arguments = ("sokoban", "--env-set", f"levels={levels}", "--env-set", "max_steps=2")
    step = {"type": "step", "data": {"action": "up"}}
    with env_server(*arguments) as (url, _), connected(url) as link:
        assert "call reset() before step()" in ask(link, step)["data"]["message"]
        ask(link, reset(seed=0))
        assert [ask(link, step)["data"]["done"] for _ in range(2)] == [False, True]
        answer = ask(link, step)["data"]
        assert (answer["code"], "call reset() before step()" in answer["message"]) == ("EXECUTION_ERROR", True)
        assert ask(link, {"type": "state"})["data"]["step_count"] == 2
        assert ask(link, reset(seed=0))["type"] == "observation"


def test_an_unknown_session_is_an_error(sokoban: Any) -> None:
    with connected(sokoban[0], "/ws?session_id=nobody") as link:
        assert "Unknown session_id: nobody" in json.loads(link.recv(timeout=30))["data"]["message"]


def test_endless_faults_end_the_session_with_the_reason(sokoban: Any) -> None:
    from websockets.exceptions import ConnectionClosed

    with connected(sokoban[0]) as link, pytest.raises(ConnectionClosed, match="100 malformed messages in a row"):
        for _ in range(101):
            ask(link, "{")


def test_an_idle_session_is_closed_with_the_reason_and_frees_its_place(levels: Any) -> None:
    from openenv.core import GenericEnvClient
    from websockets.exceptions import ConnectionClosed

    arguments = ("sokoban", "--env-set", f"levels={levels}", "--idle-seconds", "0.5", "--max-sessions", "1")
    with env_server(*arguments) as (url, _):
        with connected(url) as link:
            ask(link, reset(seed=0))
            with pytest.raises(ConnectionClosed, match=r"idle for 0\.5 s"):
                link.recv(timeout=30)
        assert plays(url)
        with GenericEnvClient(base_url=url).sync() as client:
            client.reset(seed=0)
            ws = client.async_client._ws
            client._run(ws.wait_closed())
            assert not client.reset(seed=0).done  # OpenEnv's client connects again


def test_a_server_with_a_key_plays_only_with_those_who_send_it(levels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from openenv.core import GenericEnvClient

    monkeypatch.setenv("PLAY_KEY", "correct-horse")
    with env_server("sokoban", "--env-set", f"levels={levels}", "--key-variable", "PLAY_KEY") as (url, _):
        with GenericEnvClient(base_url=url, headers={"Authorization": "Bearer correct-horse"}).sync() as client:
            assert client.reset(seed=0).observation["admissible_actions"]
        with pytest.raises(ConnectionError):
            GenericEnvClient(base_url=url).sync().reset(seed=0)
        assert requests.get(f"{url}/schema", timeout=30).status_code == 401


def test_an_oversized_message_ends_its_session_alone(sokoban: Any) -> None:
    from websockets.exceptions import ConnectionClosed

    url, process = sokoban
    with connected(url) as bystander:
        ask(bystander, reset(seed=0))
        before = resident_mb(process)
        for _ in range(20):
            with connected(url) as link, pytest.raises(ConnectionClosed) as whole:
                ask(link, "x" * (2 * MEBIBYTE))
            with connected(url) as link, pytest.raises(ConnectionClosed) as fragments:
                link.send(iter(["x" * 2**16] * 64))
                link.recv(timeout=30)
            for closed in (whole, fragments):  # who is still sending may lose the close frame with the connection
                assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
        assert ask(bystander, {"type": "state"})["type"] == "state"
        assert resident_mb(process) < before + 64


def test_a_client_that_never_reads_takes_a_bounded_amount_of_memory(sokoban: Any) -> None:
    url, process = sokoban
    before = resident_mb(process)
    with connected(url) as link:
        ask(link, reset(seed=0))
        link.socket.settimeout(2)
        sent = 0
        try:
            while sent < 64 * MEBIBYTE:
                link.socket.sendall(_masked(b'{"type": "state"}') * 1000)
                sent += 23_000
        except TimeoutError:
            pass  # the server no longer reads
        assert resident_mb(process) < before + 64
    assert plays(url)


def _masked(payload: bytes) -> bytes:
    return bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/reset", b"x" * (MEBIBYTE + 1), 413, "at most 1048576 bytes"),
        ("/reset", b"{", 422, "must be JSON"),
        ("/reset", b"[" * 100_000, 422, "nested too deeply"),
        ("/reset", b"[]", 422, ""),
        ("/reset", b'{"seed": -1}', 422, ""),
        ("/reset", b'{"sede": 1}', 422, "'seed'"),
        ("/reset", b'{"task_id": "sokoban1:0"}', 404, "is not among the 420 tasks"),
        ("/step", LONE.encode(), 422, "surrogate"),
        ("/step", b'{"action": {"action": 3}}', 422, ""),
        ("/step", b'{"action": {"action": "up"}, "x": 1}', 409, "call reset()"),
        ("/mcp", b"[" * 100_000, 422, "nested too deeply"),
        ("/nowhere", b"{}", 404, ""),
    ],
)  # fmt: skip
def test_a_malformed_request_gets_a_clear_status(sokoban: Any, path: str, body: bytes, status: int, said: str) -> None:
    headers = {"Content-Type": "application/json"}
    response = requests.post(f"{sokoban[0]}{path}", data=body, headers=headers, timeout=30)
    assert response.status_code == status
    assert said in json.dumps(response.json()["detail"])


@pytest.mark.parametrize(
    ("header", "status"), [({"Origin": "http://evil.example"}, 403), ({"Host": "evil.example"}, 421)]
)
def test_pages_of_other_sites_can_neither_request_nor_connect(
    sokoban: Any, header: dict[str, str], status: int
) -> None:
    url = sokoban[0]
    assert requests.get(f"{url}/health", headers=header, timeout=30).status_code == status
    with socket.create_connection(address(url), timeout=30) as link:
        link.sendall(handshake(url, **header))
        assert link.recv(4096).startswith(f"HTTP/1.1 {status} ".encode("ascii"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["seed", "task_id", "task", "split", "index", "injected_state", "episode_id", "action", "self", "x"]
)
MESSAGES = st.fixed_dictionaries(
    {"type": st.sampled_from(["reset", "step", "state", "mcp", "fly"]) | VALUES},
    optional={"data": VALUES | st.dictionaries(NAMES, VALUES, max_size=3)},
)


@settings(max_examples=300)
@given(messages=st.lists(MESSAGES | VALUES, min_size=1, max_size=5))
def test_every_message_gets_exactly_one_answer(sokoban: Any, messages: list[Any]) -> None:
    with connected(sokoban[0]) as link:
        for message in messages:
            assert ask(link, message)["type"] in ("observation", "state", "error", "mcp")
        assert ask(link, reset(seed=0))["data"]["observation"]["elapsed_steps"] == 0


@settings(max_examples=100)
@given(data=st.binary(max_size=400), upgraded=st.booleans())
def test_no_bytes_stop_the_server(sokoban: Any, data: bytes, upgraded: bool) -> None:
    url = sokoban[0]
    with socket.create_connection(address(url), timeout=30) as link:
        if upgraded:
            link.sendall(handshake(url))
            link.recv(1 << 16)
        link.sendall(data)
    assert requests.get(f"{url}/health", timeout=30).json() == {"status": "healthy"}


def test_malformed_messages_count_only_in_a_row() -> None:
    import asyncio

    from creditflow.train.adapters.openenv.server import Session, SessionLimits

    bad, good = ({"type": "websocket.receive", "text": text} for text in ("?", '{"type": "state"}'))
    waiting, sent = [bad, good, bad, good, bad, bad], list[Any]()

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    session = Session(receive, send, SessionLimits(faults=2))
    received = [asyncio.run(session.receive()) for _ in range(3)]
    assert received[:2] == [good, good]
    assert received[2]["type"] == "websocket.disconnect"
    assert sent == ["websocket.send"] * 3 + ["websocket.close"]
