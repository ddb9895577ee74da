"""``creditflow serve search`` with the dense engine: built, served on loopback, limited, the same for any company."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from helpers.servers.http_server import served
from helpers.worlds.retrieval_contract import PASSAGES as EVERY

from creditflow.envs.errors import ConfigError
from creditflow.envs.http import bound, url_of
from creditflow.envs.wikisearch.retrieval.base import write_document
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.remote import HttpRetriever
from creditflow.envs.wikisearch.retrieval.server import ServerLimits, create_app
from creditflow.train.commands.serve import search as serve_search

pytestmark = pytest.mark.dense

PASSAGES = EVERY[:-4]  # an empty id and lone surrogates do not survive a server


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve_search.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "p.jsonl"
    path.write_text("".join(json.dumps(write_document(p)) + "\n" for p in PASSAGES), encoding="ascii")
    return path


@pytest.fixture(scope="module", params=["dense"])
def options(request: pytest.FixtureRequest, corpus: Path, encoder: Path) -> list[str]:
    index = corpus.parent / request.param
    found = ["--engine", request.param, "--index", str(index), "--encoder", str(encoder)]
    built = ("query_prefix=query: ", "passage_prefix=passage: ", "max_tokens=24", "pooling=mean",
             "normalise=false", "batch=16")  # fmt: skip
    build = ["--corpus", str(corpus), *(word for setting in built for word in ("--build", setting)), "--build-only"]
    assert serve_search.run(parsed(*found, *build)) == 0
    header = json.loads((index / "header.json").read_text())
    asked = {"query_prefix": "query: ", "passage_prefix": "passage: ", "max_tokens": 24, "normalise": False}
    assert {name: header["encoder"][name] for name in asked} == asked
    return found


@pytest.fixture(scope="module")
def engine(options: list[str]) -> LocalRetriever:
    return serve_search._engine(parsed(*options, "--threads", "2"))


def post(url: str, body: Any) -> tuple[int, Any]:
    where = urlsplit(url)
    with closing(HTTPConnection(where.hostname or "", where.port, timeout=60)) as connection:
        connection.request("POST", "/retrieve", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.load(answer)


def test_our_own_client_gets_the_engines_hits(engine: LocalRetriever) -> None:
    queries = ["market charter", "portrait of a botanist", "", "东京"]
    with served(create_app(engine)) as url:
        for dialect in ("search_r1", "rewardflow", "asearcher"):
            found = HttpRetriever(url, dialect=dialect, max_attempts=1).search(queries, 4)
            assert [[hit.passage for hit in hits] for hits in found] == [
                [hit.passage for hit in hits] for hits in engine.search(queries, 4)
            ]


def test_answers_do_not_depend_on_what_is_asked_at_the_same_time(engine: LocalRetriever) -> None:
    queries = [passage.title for passage in PASSAGES[:24]]
    with served(create_app(engine)) as url, ThreadPoolExecutor(12) as pool:

        def ask(query: str) -> Any:
            return post(url, {"queries": [query], "topk": 5, "return_scores": True})

        alone = [ask(query) for query in queries]
        together = list(pool.map(ask, queries))
    assert alone == together
    assert all(status == 200 for status, _ in alone)


@pytest.mark.parametrize(
    "body",
    [{"queries": ["market"] * 5}, {"queries": ["x" * 201]}, {"queries": ["market"], "topk": 7}, {"queries": "market"}],
)
def test_requests_beyond_the_limits_are_rejected(engine: LocalRetriever, body: dict[str, Any]) -> None:
    limits = ServerLimits(queries=4, query_chars=200, topk=6)
    with served(create_app(engine, limits=limits)) as url:
        assert post(url, body)[0] == 422
        assert post(url, {"queries": ["x " * 100] * 4, "topk": 6})[0] == 200


def test_the_command_serves_on_loopback(options: list[str]) -> None:
    with bound(0) as free:
        url = url_of(free).rstrip("/")
    handles_sigint = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    serve = f"{handles_sigint}; from creditflow.train.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", serve, "serve", "search", *options, "--port", url.rpartition(":")[2]]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            for _ in range(1200):
                assert process.poll() is None
                try:
                    status, answer = post(url, {"queries": [PASSAGES[0].title], "topk": 2, "return_scores": True})
                    break
                except OSError:
                    time.sleep(0.1)
            assert status == 200
            assert len(answer["result"][0]) == 2
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "dense", "--build-only", "--corpus", "p.jsonl", "--index", "new"), "needs --encoder"),
        (
            ("--engine", "bm25", "--build-only", "--corpus", "p.jsonl", "--index", "new", "--build", "batch=4"),
            "--build is for",
        ),
        (("--build-only", "--corpus", "p.jsonl", "--index", "new", "--encoder", "e"), "--encoder is for"),
        (("--engine", "dense", "--encoder", "e"), "need --corpus or --index"),
    ],
)
def test_options_that_do_not_fit_are_configuration_errors(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        serve_search.run(parsed(*arguments))
