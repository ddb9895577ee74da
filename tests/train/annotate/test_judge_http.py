"""``creditflow annotate --with judge:URL#MODEL`` against an OpenAI-compatible server on loopback that works or fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.episodes.builders import group, walk
from helpers.servers.http_server import served

from creditflow.train.cli import main
from creditflow.wrappers.trajectory import Group, read_groups, write_jsonl

FOUR = 4  # turns in each group of the log


class Server:
    """A server that scores a step by the length of its action, unless ``reply`` is replaced.

    Attributes:
        requests: bodies of requests, in order.
        headers: of the last request.
        reply: makes the content of the n-th response, from 1; an int is a status, a float a delay in seconds.
    """

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.headers: dict[str, str] = {}
        self.reply: Callable[[int, Any], Any] = lambda _, case: str(len(case["marked"]["did"]))

    def app(self) -> Any:
        pytest.importorskip("starlette", reason="a server needs the extra [serve]")
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        async def complete(request: Any) -> Any:
            body = await request.json()
            self.requests.append(body)
            self.headers = dict(request.headers)
            text = self.reply(len(self.requests), json.loads(body["messages"][-1]["content"]))
            if isinstance(text, int):
                return JSONResponse({"error": {"message": "not now"}}, text)
            if isinstance(text, float):
                await asyncio.sleep(text)
                text = "1"
            choices = (
                text if isinstance(text, list) else [{"index": 0, "message": {"role": "assistant", "content": text}}]
            )
            return JSONResponse({"id": "c", "object": "chat.completion", "model": body["model"], "choices": choices})

        return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with served(server.app()) as base:
        yield f"{base}/v1"


@pytest.fixture
def annotated(tmp_path: Path, url: str) -> Callable[..., int]:
    """Runs the command on a log of three groups of four turns, a group at a time."""
    groups = []
    for number in range(3):
        made = group(walk("s a b g", actions=["x", "xyz", "xy"]), walk("s a", "failed", actions=["xxxx"]))
        members = [
            replace(
                t,
                group_id=f"g{number}",
                turns=tuple(replace(u, observation=f"page {u.state_key} of {number}") for u in t.turns),
            )
            for t in made.trajectories
        ]
        groups.append(Group(tuple(members)))
    write_jsonl(tmp_path / "in.jsonl", groups)

    def run(*options: str, timeout: float = 30.0) -> int:
        settings = [
            part for option in ("max_attempts=2", f"timeout={timeout}", "workers=1") for part in ("--set", option)
        ]
        files = [str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl")]
        return main(["annotate", "--with", f"judge:{url}#judge-7b", "--batch", "1", *settings, *options, *files])

    return run


def scores(path: Path) -> list[float]:
    return [turn.values["judge.score"] for group in read_groups(path) for turn in group.turns]


def test_every_turn_is_scored_by_a_served_model(
    server: Server, annotated: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret")
    assert annotated("--set", "key_variable=JUDGE_KEY") == 0
    assert scores(tmp_path / "out.jsonl") == [0.1, 0.3, 0.2, 0.4] * 3
    assert {body["model"] for body in server.requests} == {"judge-7b"}
    assert {body["temperature"] for body in server.requests} == {0}
    assert server.headers["authorization"] == "Bearer secret"
    text = (tmp_path / "out.jsonl").read_text()
    assert "served:judge-7b" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("nan", "a whole number from 0 to 10"),
        ("NaN", "a whole number from 0 to 10"),
        ("7 8", "a whole number from 0 to 10"),
        ("[7, 8]", "a whole number from 0 to 10"),
        ("", "a whole number from 0 to 10"),
        (None, "a whole number from 0 to 10"),
        ([], "not a chat completion"),
        ([{"index": 0}], "not a chat completion"),
        (400, "status 400"),
        (503, "status 503"),
        (1.5, "no response within"),
    ],
)
def test_a_reply_that_is_not_a_score_stops_the_command_and_leaves_no_log(
    reply: Any, message: str, server: Server, annotated: Callable[..., int], tmp_path: Path, capsys: Any
) -> None:
    server.reply = lambda _, case: reply
    assert annotated(timeout=0.3 if isinstance(reply, float) else 30.0) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()


def test_turns_scored_before_a_failure_are_not_requested_again(
    server: Server, annotated: Callable[..., int], tmp_path: Path, capsys: Any
) -> None:
    cache = ("--set", f"cache={tmp_path / 'scores.jsonl'}")
    server.reply = lambda n, case: str(len(case["marked"]["did"])) if n <= FOUR + 2 else "no idea"
    assert annotated(*cache) != 0
    assert annotated(*cache) != 0  # an interrupted command continues only with --resume
    assert "--resume" in capsys.readouterr().err
    server.requests.clear()
    server.reply = lambda _, case: str(len(case["marked"]["did"]))
    assert annotated(*cache, "--resume") == 0
    assert len(server.requests) == 2 * FOUR - 2  # a group was finished, half of the next was scored
    assert scores(tmp_path / "out.jsonl") == [0.1, 0.3, 0.2, 0.4] * 3
    first = (tmp_path / "out.jsonl").read_bytes()
    server.requests.clear()
    (tmp_path / "out.jsonl").unlink()
    assert annotated(*cache) == 0
    assert not server.requests
    assert (tmp_path / "out.jsonl").read_bytes() == first


def test_another_model_does_not_resume_from_the_scores_of_the_first(
    server: Server, url: str, annotated: Callable[..., int], tmp_path: Path, capsys: Any
) -> None:
    server.reply = lambda n, case: "5" if n <= FOUR else "no idea"
    assert annotated() != 0
    server.reply = lambda _, case: "5"
    files = [str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl"), "--resume"]
    assert main(["annotate", "--with", f"judge:{url}#another", *files]) != 0
    assert 'requested "served:another"' in capsys.readouterr().err
