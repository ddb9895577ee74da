"""Shared parts of our HTTP servers: requests fail alone, queues are bounded, deadlines start with the first byte."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from helpers.servers.http_server import served

from creditflow.envs.http import OverloadedError, Worker, application, read_json


def test_a_function_that_fails_fails_alone() -> None:
    def upper(text: str) -> str:
        if text == "bad":
            raise ValueError(text)
        return text.upper()

    async def ask() -> list[Any]:
        worker = Worker(8, 5.0)
        asked = (worker.run(partial(upper, text), 1) for text in ("a", "bad", "b"))
        results = await asyncio.gather(*asked, return_exceptions=True)
        worker.stop()
        return results

    good, bad, other = asyncio.run(ask())
    assert (good, other) == ("A", "B")
    assert isinstance(bad, ValueError)


def test_items_beyond_the_limit_are_rejected() -> None:
    going = threading.Event()

    async def flood() -> tuple[list[Any], int]:
        worker = Worker(8, 5.0)
        calls = [asyncio.create_task(worker.run(lambda: going.wait(5), 4)) for _ in range(5)]
        await asyncio.sleep(0.05)
        going.set()
        found = await asyncio.gather(*calls, return_exceptions=True)
        worker.stop()
        return found, worker.rejected

    found, rejected = asyncio.run(flood())
    assert [isinstance(one, OverloadedError) for one in found] == [False, False, True, True, True]
    assert rejected == 12


def app(seconds: float = 5.0) -> Any:
    pytest.importorskip("starlette", reason="the servers need the extra [serve]")
    from starlette.responses import JSONResponse

    async def echo(request: Any) -> Any:
        body = await read_json(request, 1000)
        if body == "boom":
            raise TypeError("an error that nobody expected")
        return JSONResponse(body)

    return application([("POST", "/echo", echo)], Worker(8, seconds), "toy")


def test_an_unexpected_error_is_json_too() -> None:
    with served(app()) as url:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(f"{url}/echo", b'"boom"'), timeout=10)  # noqa: S310 - our own
        assert caught.value.code == 500
        assert json.loads(caught.value.read()) == {"detail": "internal error of the toy server"}


def test_a_body_that_arrives_too_slowly_is_dropped() -> None:
    with served(app(0.3)) as url:
        where = urlsplit(url)
        with socket.create_connection((where.hostname, where.port), timeout=10) as client:
            client.sendall(f"POST /echo HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: 900\r\n\r\n".encode())
            response = b""
            for _ in range(100):  # far longer than the limit; ends with the first byte of the response
                client.sendall(b" ")
                client.settimeout(0.05)
                try:
                    response = client.recv(4096)
                    break
                except TimeoutError:
                    time.sleep(0.01)
        assert b"504" in response.split(b"\r\n")[0]
