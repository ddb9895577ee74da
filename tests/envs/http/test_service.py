"""Shared parts of our HTTP servers: requests fail alone, queues are bounded, deadlines start with the first byte."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from helpers.servers.http_server import served

from creditflow.envs.http import Batcher, OverloadedError, application, read_json


@dataclass(frozen=True)
class Limits:
    pending: int = 8
    batch: int = 4
    seconds: float = 5.0


def test_a_request_whose_result_is_an_error_fails_alone() -> None:
    def process(batch: Sequence[str]) -> list[str | Exception]:
        return [ValueError(one) if one == "bad" else one.upper() for one in batch]

    async def ask() -> list[Any]:
        batcher: Batcher[str, str] = Batcher(process, Limits())
        batcher.start()
        try:
            return await asyncio.gather(*(batcher.submit(one, 1) for one in ("a", "bad", "b")), return_exceptions=True)
        finally:
            await batcher.stop()

    good, bad, other = asyncio.run(ask())
    assert (good, other) == ("A", "B")
    assert isinstance(bad, ValueError)


def test_calls_count_towards_the_queue_limit_like_requests() -> None:
    going = threading.Event()

    async def flood() -> tuple[list[Any], int]:
        batcher: Batcher[int, int] = Batcher(list, Limits())
        batcher.start()
        calls = [asyncio.create_task(batcher.call(lambda: going.wait(5), 4)) for _ in range(5)]
        await asyncio.sleep(0.05)
        going.set()
        found = await asyncio.gather(*calls, return_exceptions=True)
        await batcher.stop()
        return found, batcher.rejected

    found, rejected = asyncio.run(flood())
    assert [isinstance(one, OverloadedError) for one in found] == [False, False, True, True, True]
    assert rejected == 12


def app(limits: Limits) -> Any:
    pytest.importorskip("starlette", reason="the servers need the extra [serve]")
    from starlette.responses import JSONResponse

    async def echo(request: Any) -> Any:
        body = await read_json(request, 1000)
        if body == "boom":
            raise TypeError("an error that nobody expected")
        return JSONResponse(body)

    batcher: Batcher[int, int] = Batcher(list, limits)
    return application([("POST", "/echo", echo)], batcher, "toy")


def test_an_unexpected_error_is_json_too() -> None:
    with served(app(Limits())) as url:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(f"{url}/echo", b'"boom"'), timeout=10)  # noqa: S310 - our own
        assert caught.value.code == 500
        assert json.loads(caught.value.read()) == {"detail": "internal error of the toy server"}


def test_a_body_that_arrives_too_slowly_is_dropped() -> None:
    with served(app(Limits(seconds=0.3))) as url:
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
