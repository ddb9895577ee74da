"""Responses of servers to our clients: search servers, served models, judges. No error contains an API key."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.agents.language_model.openai_agent import parse_served
from creditflow.envs.errors import CreditflowError
from creditflow.envs.wikisearch.grading.grade import ModelJudge
from creditflow.envs.wikisearch.retrieval.remote import HttpRetriever
from creditflow.train.annotate.judge import JudgeAnnotator
from fuzz.mutate_bytes import below, mutate_bytes, pick
from fuzz.mutate_data import mutate_json
from fuzz.samples import groups
from fuzz.target import MismatchError, Target

SECRET = "sk-n0b0dy-kn0ws"  # noqa: S105 - not a real secret
KEY_VARIABLE = "CREDITFLOW_FUZZ_KEY"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Echo:
    """A server on loopback, in one thread, that sends the same bytes in response to every request."""

    def __init__(self) -> None:
        self.response = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                connection.settimeout(2.0)
                try:
                    _request(connection)
                    connection.sendall(self.response)
                except OSError:
                    continue


def _request(connection: socket.socket) -> None:
    """Read a request with a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    wanted = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(body) < wanted:
        body += connection.recv(1 << 16) or b" " * wanted


@lru_cache(maxsize=1)
def _echo(_process: int) -> Echo:
    return Echo()


def _responding(data: bytes) -> str:
    """Return the URL of a server that sends these bytes."""
    server = _echo(os.getpid())
    server.response = data if data.startswith(b"HTTP/") else HEAD % len(data) + data
    return server.url


def _judge_at(data: bytes) -> ModelJudge:
    """Return a judge with an API key and a server that sends these bytes."""
    os.environ[KEY_VARIABLE] = SECRET
    return ModelJudge(_responding(data), "m", key_variable=KEY_VARIABLE, max_attempts=1, timeout=3.0)


def _guarded(function: Callable[[bytes], Any]) -> Callable[[bytes, Path], None]:
    """Return a reader which checks that neither an error nor its causes contain the key."""

    def read(data: bytes, _: Path) -> None:
        try:
            function(data)
        except CreditflowError as error:
            cause: BaseException | None = error
            while cause is not None:
                if SECRET in str(cause):
                    raise MismatchError(f"an error contains the key: {str(cause)[:200]}") from None
                cause = cause.__cause__
            raise

    return read


def _plain(function: Callable[[bytes], Any]) -> Callable[[bytes, Path], None]:
    return lambda data, _: function(data)


def _complete(data: bytes) -> None:
    backend = OpenAIBackend(
        _judge_at(data).chat.client, "toy", lambda text: np.array([5] * (len(text) % 7 + 1), np.int32)
    )
    requests = [GenerationRequest(0, np.array([3, 4], np.int32), np.full(8, 0.5))]
    for temperature in (1.0, 0.7):
        backend.generate(requests, Sampling(max_new_tokens=8, temperature=temperature), frozenset({1}))


def _search(data: bytes) -> None:
    url = _responding(data)
    for dialect in ("search_r1", "rewardflow", "asearcher"):
        remote = HttpRetriever(url, dialect=dialect, max_attempts=1, timeout=3.0)
        remote.search(["x"], 2)
        remote.visit(["x"])


def _judge(data: bytes) -> None:
    _judge_at(data)("q", ["a"], "b")


def _score(data: bytes) -> None:
    os.environ[KEY_VARIABLE] = SECRET
    judge = JudgeAnnotator(_responding(data), "m", key_variable=KEY_VARIABLE, max_attempts=1, timeout=3.0, workers=1)
    judge.annotate(groups("sokoban")[:1])


def _urls(data: bytes) -> None:
    """Check that a URL with a secret is rejected; ``_guarded`` checks the message."""
    text = data.decode("utf-8", "replace")
    url, _, _ = parse_served(text)
    if SECRET in url:
        raise MismatchError(f"a URL with a secret is accepted: {url[:120]}")


URLS = (
    f"http://user:{SECRET}@127.0.0.1:8000/v1#m", f"http://127.0.0.1:8000/v1?api_key={SECRET}#m",
    f"https://h/v1?token={SECRET}#m", f"https://h/v1?x=1&key={SECRET}#m@folder", f"https://{SECRET}@h/v1#m",
    f"http://user:{SECRET}@127.0.0.1:8000/v1", f"https://h/v1?api_key={SECRET}", f"https://h/v1?api_key={SECRET}#m@",
    f"https://h/v1?{SECRET}#m", f"http://user:{SECRET}@[::1/v1#m", f"http://user:{SECRET}@h:99999/v1#m",
)  # fmt: skip
PLAIN_URLS = (b"http://127.0.0.1:8000/v1#qwen@models/qwen", b"https://host/v1#m")


def _http(body: Any) -> bytes:
    return json.dumps(body).encode()


CHOICE = {
    "index": 0, "text": "<5>", "finish_reason": "stop", "token_ids": [5, 1], "prompt_token_ids": [3, 4],
    "logprobs": {"tokens": ["token_id:5", "token_id:1"], "token_logprobs": [-0.5, -0.5],
                 "top_logprobs": [{"token_id:5": -0.5, "token_id:505": -2.0}] * 2},
}  # fmt: skip
CHAT = {"choices": [{"message": {"content": "7"}}]}
VERDICT = {"choices": [{"message": {"content": "CORRECT"}}]}
PASSAGE = {"id": "1", "contents": '"Nile"\nIt is long.'}


def _mutate_reply(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
    """Damage the body (three times in four), or the whole response with its header."""
    if below(rng, 4):
        return mutate_json(rng, samples)
    body = pick(rng, samples)
    return b"HTTP/" + mutate_bytes(rng, [HEAD % len(body) + body]).removeprefix(b"HTTP/")


def _reply_traps() -> Sequence[bytes]:
    echo = json.dumps(
        {"error": {"message": f"bad key {SECRET}", "headers": {"Authorization": f"Bearer {SECRET}"}}}
    ).encode()
    return [
        *(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(echo)) + echo for status in (400, 401, 403, 500)),
        HEAD % len(echo) + echo,
        f"HTTP/1.1 200 Bearer {SECRET}\r\nContent-Length: x\r\n\r\n".encode(),
        f"HTTP/9.9 {SECRET}\r\n\r\n".encode(),
        f"HTTP/1.1 {SECRET} {SECRET}\r\n\r\n".encode(),
        f"{SECRET}\r\n\r\n".encode(),
        b"HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + b"x" * 3_000_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 100 C\r\n\r\n" * 50,
        b"[" * 200_000, b"9" * 5000, b"\xff\xfe", b"", b"null", b"[]", b"{}",
    ]  # fmt: skip


def _reply(name: str, function: Callable[[bytes], Any], *bodies: Any, key: bool = True) -> Target:
    """Return a target. Clients without a ``key`` send different requests, for which no single body is valid: no seeds."""
    samples = [_http(body) for body in bodies]
    return Target(
        name=f"replies/{name}", read=_guarded(function) if key else _plain(function),
        seeds=lambda _: samples if key else [], cases=40,
        mutate=lambda rng, _: _mutate_reply(rng, samples), traps=_reply_traps,
    )  # fmt: skip


TARGETS = (
    _reply("completions", _complete, {"choices": [CHOICE]}),
    _reply("chat-judge", _judge, VERDICT),
    _reply("chat-marks", _score, CHAT),
    _reply("search", _search, {"result": [[{"document": PASSAGE, "score": 1.0}]]}, {"result": [[PASSAGE]]}, key=False),
    Target(
        name="replies/urls", read=_guarded(_urls), seeds=lambda _: PLAIN_URLS, mutate=mutate_bytes, cases=150,
        traps=lambda: [url.encode() for url in URLS],
    ),
)  # fmt: skip
