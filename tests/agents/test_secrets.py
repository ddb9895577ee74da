"""A key that is sent to a server appears nowhere, even if the server returns it: not in errors, logs or files."""

from __future__ import annotations

import contextlib
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.servers.loopback import Exchange, loopback

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.envs.errors import ConfigError, CreditflowError, ServiceError
from creditflow.envs.http.client import JsonClient
from creditflow.envs.http.credentials import ApiKey
from creditflow.envs.wikisearch.grading.grade import make_judge
from creditflow.envs.wikisearch.retrieval.remote import HttpRetriever
from creditflow.train.annotate.registry import Context, make_annotator
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import write_jsonl

KEY = "sk-Zq7Planted0Secret9Xw4"
VARIABLE = "PLANTED_KEY"
Reply = Callable[[str], bytes]  # maps the key in a request (after "Bearer ") to the bytes of the response


@contextlib.contextmanager
def replying(reply: Reply) -> Iterator[tuple[str, list[str]]]:
    """A server that sends this reply to every request; yields its URL and the Authorization headers that it received."""
    sent: list[str] = []

    def exchange(request: Exchange) -> None:
        request.rfile.read(int(request.headers.get("Content-Length", 0)))
        request.close_connection = True
        sent.append(request.headers.get("Authorization", ""))
        request.wfile.write(reply(sent[-1].removeprefix("Bearer ")))

    with loopback(exchange) as url:
        yield f"{url}/v1", sent


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


ECHOES: dict[str, Reply] = {
    "an error's body": lambda key: http(f"bad key: {key}, Authorization: Bearer {key}".encode(), "401 No"),
    "an error's body, far in": lambda key: http(b"x" * 150 + key.encode() * 3, "403 No"),
    "an error's reason": lambda key: http(b"", f"400 bad key {key}"),
    "an overloaded server's body": lambda key: http(key.encode(), "503 Wait"),
    "no HTTP": lambda key: f"bad key {key}\r\n\r\n".encode(),
    "a header that is none": lambda key: f"HTTP/1.1 200 OK\r\n{key}\r\n: {key}\r\n\r\n".encode(),
    "a bad chunk": lambda key: f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{key}\r\n".encode(),
    "a bad length": lambda key: f"HTTP/1.1 200 OK\r\nContent-Length: {key}\r\n\r\n".encode(),
    "another JSON": lambda key: http(
        json.dumps({"error": {"message": f"bad key {key}", key: [f"Bearer {key}"]}}).encode()
    ),
    "a name in escapes": lambda key: http(b'{"error": "%s"}' % "".join(f"\\u{ord(c):04x}" for c in key).encode()),
    "no JSON": lambda key: http(f"{{{key}".encode()),
    "a redirection": lambda key: http(key.encode(), "307 There", f"Location: http://127.0.0.1:1/{key}"),
}


def send_key(url: str, folder: Path, kind: str) -> None:
    """Send a request with the key through one of our clients."""
    key = ApiKey.from_environment(VARIABLE)
    client = JsonClient([url], max_attempts=2, backoff=0.0, timeout=10.0, key=key)
    if kind == "agent":
        from creditflow.agents.language_model.openai_agent import _served

        _served(client, url, "toy")
    elif kind == "backend":
        backend = OpenAIBackend(client, "toy", lambda text: np.frombuffer(text.encode(), np.uint8).astype(np.int32))
        request = GenerationRequest(0, np.array([1, 2], np.int32), np.full(8, 0.5))
        backend.generate([request], Sampling(max_new_tokens=8), frozenset({0}))
    elif kind == "judge of answers":
        options = {
            "url": url,
            "model": "toy",
            "key_variable": VARIABLE,
            "max_attempts": 2,
            "cache": str(folder / "cache.jsonl"),
        }
        make_judge(options)("question", ["golden"], "answer")
    elif kind == "search":
        HttpRetriever(url, client=client).search(["a"], 1)
    else:
        settings = {"key_variable": VARIABLE, "max_attempts": 2, "cache": str(folder / "cache.jsonl")}
        annotator = make_annotator(f"judge:{url}#toy", Context(settings=settings))
        annotations = annotator.annotate([group(walk("s a g", actions=["x", "y"]))])
        (folder / "annotations.txt").write_text(f"{annotations} {annotator.provenance.text()}", encoding="utf-8")


CLIENTS = ("agent", "backend", "judge of answers", "judge of turns", "search")


def assert_hidden(text: str) -> None:
    assert KEY not in text


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("kind", CLIENTS)
def test_no_client_shows_a_key_that_its_server_echoes(
    kind: str, echo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    caplog.set_level(logging.DEBUG)
    with replying(ECHOES[echo]) as (url, sent), pytest.raises(CreditflowError) as caught:
        send_key(url, tmp_path, kind)
    assert set(sent) == {f"Bearer {KEY}"}
    seen = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text
    seen += "".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file())
    assert_hidden(seen)


@pytest.mark.parametrize("echo", ECHOES)
def test_no_command_prints_or_writes_the_key(
    echo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    write_jsonl(tmp_path / "in.jsonl", [group(walk("s a g", actions=["x", "y"]))])
    with replying(ECHOES[echo]) as (url, _):
        settings = [f"key_variable={VARIABLE}", "max_attempts=1", f"cache={tmp_path / 'scores.jsonl'}"]
        options = [part for setting in settings for part in ("--set", setting)]
        files = [str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl")]
        assert main(["--traceback", "annotate", "--with", f"judge:{url}#toy", *options, *files]) != 0
    printed = capsys.readouterr()
    written = "".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file())
    assert_hidden(printed.out + printed.err + written)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_does_not_carry_the_key(status: int) -> None:
    with replying(lambda _: http(b"{}")) as (elsewhere, sent):
        answer = http(b"", f"{status} There", f"Location: {elsewhere}")
        with replying(lambda _: answer) as (url, _), pytest.raises(ServiceError, match="redirect"):
            JsonClient([url], key=ApiKey(KEY)).post("/x", {})
    assert not sent


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        (f"judge:http://me:{KEY}@host/v1#m", {}),
        (f"judge:http://host/v1?key={KEY}#m", {}),
        (f"judge:http://host/v1?key={KEY}", {}),
        (f"judge:http://{KEY}@host/v1", {}),
        ("judge:http://host/v1#m", {"key_variable": KEY}),
        ("judge:http://host/v1#m", {"key_variable": "A_VARIABLE_THAT_IS_NOT_SET"}),
    ],
)
def test_annotators_reject_secrets_in_urls_and_settings_without_showing_them(
    spec: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_annotator(spec, Context(settings=settings))
    assert_hidden("".join(traceback.format_exception(caught.value)))


@pytest.mark.parametrize(
    "url", [f"http://me:{KEY}@host", f"http://host/?k={KEY}", f"http://host/#{KEY}@", f"{KEY}@host"]
)
def test_search_clients_and_judges_reject_such_urls(url: str) -> None:
    for make in (lambda: HttpRetriever(url), lambda: make_judge({"url": url, "model": "m"}), lambda: JsonClient([url])):
        with pytest.raises(ConfigError) as caught:
            make()
        assert_hidden("".join(traceback.format_exception(caught.value)))


def test_a_key_appears_in_no_repr_and_no_pickle() -> None:
    key = ApiKey(KEY)
    client = JsonClient(["http://127.0.0.1:1"], key=key)
    assert_hidden(f"{key!r} {key} {vars(client)}")
    with pytest.raises(TypeError, match="cannot be pickled"):
        key.__reduce__()
