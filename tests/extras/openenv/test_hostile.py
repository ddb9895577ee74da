"""What a client may not send gets an error, others play on, and memory stays bounded."""

from __future__ import annotations

import json
import socket
import time
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
        ("{", "INVALID_JSON", "Invalid JSON"),
        ({"type": "fly"}, "UNKNOWN_TYPE", "fly"),
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
        (reset(split="test"), "EXECUTION_ERROR", "unknown option of reset"),
        (reset(injected_state="{}"), "EXECUTION_ERROR", "snapshot"),
        (reset(injected_state={}), "EXECUTION_ERROR", "text of a snapshot"),
        (reset(injected_state="{}", seed=1), "EXECUTION_ERROR", "give no seed"),
    ],
)  # fmt: skip
def test_a_malformed_message_gets_an_error_and_the_session_goes_on(
    sokoban: Any, message: Any, code: str, said: str
) -> None:
    with connected(sokoban[0]) as link:
        before = ask(link, reset(seed=1))["data"]["observation"]["state_key"]
        answer = ask(link, message)
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert said in answer["data"]["message"]
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


@pytest.mark.parametrize("message", ["[" * 100_000, "null", b"\x00\xff", LONE])
def test_what_openenv_cannot_read_ends_its_session_alone(sokoban: Any, message: Any) -> None:
    with connected(sokoban[0]) as bystander, connected(sokoban[0]) as link:
        ask(bystander, reset(seed=0))
        ask(link, reset(seed=0))
        assert ask(link, message)["data"]["code"] == "SESSION_ERROR"
        assert ask(bystander, {"type": "state"})["type"] == "state"


def test_an_idle_session_frees_its_place(levels: Any) -> None:
    arguments = ("sokoban", "--env-set", f"levels={levels}", "--limit", "idle_seconds=1", "--limit", "sessions=1")
    with env_server(*arguments) as (url, _), connected(url) as link:
        ask(link, reset(seed=0))
        with connected(url) as second:
            assert json.loads(second.recv(timeout=30))["data"]["code"] == "CAPACITY_REACHED"
        time.sleep(8)  # OpenEnv looks every five seconds
        assert plays(url)


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


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/reset", b"x" * (MEBIBYTE + 1), 413, "at most 1048576 bytes"),
        ("/reset", b"[]", 422, ""),
        ("/reset", b'{"seed": -1}', 422, ""),
        ("/reset", b'{"sede": 1}', 422, "'seed'"),
        ("/reset", b'{"task_id": "sokoban1:0"}', 404, "is not among the 420 tasks"),
        ("/step", b'{"action": {"action": 3}}', 422, ""),
        ("/step", b'{"action": {"action": "up"}, "x": 1}', 409, "call reset()"),
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
