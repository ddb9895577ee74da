"""The options of ``creditflow serve search``."""

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.servers.http_server import served
from helpers.servers.raw_http import ask, connect, post

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.http import bound, url_of
from creditflow.train.commands.serve import search as serve_search


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve_search.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize("port", ["0", "-1", "65536"])
def test_impossible_ports_are_configuration_errors(port: str) -> None:
    with pytest.raises(ConfigError, match="--port"):
        serve_search.run(parsed("--port", port))


def test_a_missing_corpus_is_a_data_error() -> None:
    pytest.importorskip("uvicorn", reason="the server needs the extra [serve]")
    with pytest.raises(DataError, match="cannot be read"):
        serve_search.run(parsed("--corpus", "nowhere.jsonl", "--port", "18231"))


def test_a_served_encyclopedia_is_searched_by_our_own_client() -> None:
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    from creditflow.envs.wikisearch.retrieval.remote import HttpRetriever
    from creditflow.envs.wikisearch.retrieval.server import create_app
    from creditflow.envs.wikisearch.world.encyclopedia import load_encyclopedia

    engine = load_encyclopedia(3, 400).retriever
    with served(create_app(engine)) as url:
        queries = ["market charter", "portrait of a botanist", ""]
        for dialect in ("search_r1", "rewardflow", "asearcher"):
            client = HttpRetriever(url, dialect=dialect, max_attempts=1)
            found = client.search(queries, 4)
            assert [[hit.passage for hit in hits] for hits in found] == [
                [hit.passage for hit in hits] for hits in engine.search(queries, 4)
            ]
        page = client.visit([found[0][0].passage.title, "nowhere"])
        assert page[0] is not None
        assert page[1] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--build-only",), "needs both --corpus"),
        (("--build-only", "--index", "new", "--engine", "lucene"), "needs both --corpus"),
        (("--engine", "lucene"), "need --corpus or --index"),
        (("--memory", "1g"), "need --corpus or --index"),
        (("--encoder", "e"), "--encoder is for the engine dense"),
        (("--device", "cuda"), "--device is for the engine dense"),
        (("--index", "x", "--build", "query_prefix=query"), "--build is for building an index"),
        (("--limit", "pendin=3"), "did you mean 'pending'"),
        (("--limit", "seconds=0"), "must be positive"),
    ],
)
def test_an_engine_without_its_files_is_a_configuration_error(options: tuple[str, ...], message: str) -> None:
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    with pytest.raises(ConfigError, match=message):
        serve_search.run(parsed(*options))


def test_an_index_is_built_once_and_then_opened(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "0", "contents": "Town\\nOne cat."}\n', encoding="ascii")
    options = ("--corpus", str(tmp_path / "p.jsonl"), "--index", str(tmp_path / "index"))
    assert serve_search.run(parsed(*options, "--build-only")) == 0
    for given in (options, options[2:], ("--corpus", str(tmp_path / "index"))):
        assert serve_search._engine(parsed(*given)).search(["cat"], 3)[0][0].passage.id == "0"
    assert serve_search._engine(parsed("--corpus", options[1], "--index", str(tmp_path / "second"))).search(["cat"], 1)[
        0
    ]


def test_the_command_answers_and_rejects_other_hosts() -> None:
    pytest.importorskip("uvicorn", reason="the server needs the extra [serve]")
    with bound(0) as free:
        url = url_of(free).rstrip("/")
    body = b'{"queries": ["a"]}'
    # a shell's background jobs ignore SIGINT, and their child processes inherit that
    handles_sigint = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    serve = f"{handles_sigint}; from creditflow.train.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", serve, "serve", "search", "--articles", "400", "--port", url.rpartition(":")[2]]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            _wait_for(url, process)
            assert ask(url, post(url, "/retrieve", body)) == 200
            assert ask(url, post(url, "/retrieve", body, host="evil.example")) == 421
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 130
        finally:
            process.kill()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None
        with contextlib.suppress(OSError):
            connect(url).close()
            return
        time.sleep(0.1)
    raise AssertionError("the server does not listen")


def test_a_port_that_is_taken_is_an_error_before_anything_is_opened() -> None:
    pytest.importorskip("uvicorn", reason="the server needs the extra [serve]")
    with bound(0) as taken:
        taken.listen()
        with pytest.raises(ConfigError, match="cannot listen"):
            serve_search.run(parsed("--corpus", "nowhere.jsonl", "--port", str(taken.getsockname()[1])))
