"""The reward service and its two clients, over loopback: PiCA's released request format, our exact one, and every rejection."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.servers.http_server import served
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError, ServiceError
from creditflow.envs.http import BadRequestError
from creditflow.envs.http.callers import KeyCheck
from creditflow.envs.http.credentials import ApiKey
from creditflow.train.annotate import AnnotationError, Context, annotate, make_annotator
from creditflow.train.annotate.success.serving.released_format import PLACEHOLDER, released_query
from creditflow.train.annotate.success.serving.remote import PicaServerAnnotator, text_with_placeholders
from creditflow.train.annotate.success.serving.request_bodies import RewardLimits, episodes_of, texts_of
from creditflow.train.annotate.success.serving.server import create_reward_app
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl
from creditflow.wrappers.trajectory import Group, Turn

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


class Stub:
    """A model whose hazard of a step is its number of letters x in a hundred."""

    def __init__(self, kind: str = "hazard") -> None:
        self.about: Mapping[str, Any] = {"kind": kind, "model": "blake2b:0", "parameters": {"kind": kind}}
        self.batches: list[int] = []
        self.before: Any = lambda: None

    def read_text(self, text: str) -> list[float]:
        if PLACEHOLDER not in text:
            raise DataError("the text has no placeholder")
        return [piece.count("x") / 100 for piece in text.split(PLACEHOLDER)[:-1]]

    def read_turns(self, turns: Sequence[Turn]) -> list[float]:
        if any(not turn.action for turn in turns):
            raise DataError("a turn has no action")
        return [turn.action.count("x") / 100 for turn in turns]

    def hazards(self, read: Sequence[list[float]]) -> list[NDArray[np.float64]]:
        self.before()
        self.batches.append(len(read))
        return [np.array(one) for one in read]

    def success(self, read: Sequence[list[float]]) -> list[NDArray[np.float64]]:
        self.batches.append(len(read))
        return [np.concatenate([[1.0], np.cumprod(1.0 - np.array(one))]) if one else np.zeros(0) for one in read]


@contextmanager
def rated(stub: Stub, **limits: Any) -> Iterator[str]:
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    with served(create_reward_app(stub, limits=RewardLimits(**limits))) as url:
        yield url


def post(url: str, body: Any) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=30) as answer:  # noqa: S310 - our own server
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def searched() -> Group:
    made = group(walk("s a b g", actions=["x", "xyz", "xxy"]), walk("s a", "failed", actions=["xxxx"]))
    members = [
        replace(t, turns=tuple(replace(u, observation=f"page {u.state_key}") for u in t.turns))
        for t in made.trajectories
    ]
    return Group(tuple(members), {"question": "Who?"})


# -- requests, without a server ---------------------------------------------------------------------------------------
@given(JSON | st.dictionaries(st.sampled_from(["query", "prompts", "episodes"]), JSON))
def test_any_body_is_read_or_rejected(body: Any) -> None:
    for read in (texts_of, episodes_of):
        try:
            found = read(body, RewardLimits())
        except BadRequestError as error:
            assert error.loc[0] == "body"
        else:
            assert isinstance(found, tuple)


def test_limits_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="positive"):
        RewardLimits(texts=0)


# -- the server -------------------------------------------------------------------------------------------------------
def test_the_response_has_the_released_format() -> None:
    with rated(Stub()) as url:
        body = {"query": [f"xx{PLACEHOLDER}\n x{PLACEHOLDER}", f"y{PLACEHOLDER}"], "prompts": []}
        rewards = [[0.02, 0.01], [0.0]]
        assert post(f"{url}/get_reward", body) == (
            200, {"rewards": rewards, "scores": rewards, "extra_logs": {"dummy_scores": rewards}}
        )  # fmt: skip
        assert post(f"{url}/get_reward", {"query": []})[1]["rewards"] == []
        with urllib.request.urlopen(f"{url}/health", timeout=30) as answer:  # noqa: S310 - our own server
            health = json.loads(answer.read())
    assert (health["status"], health["model"], health["served"], health["pending"]) == ("ok", "blake2b:0", 2, 0)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("get_reward", b"{", 422),
        ("get_reward", [], 422),
        ("get_reward", {}, 422),
        ("get_reward", {"query": "text"}, 422),
        ("get_reward", {"query": [1]}, 422),
        ("get_reward", {"query": ["x"]}, 422),
        ("get_reward", {"query": ["x" + PLACEHOLDER, "no placeholder"]}, 422),
        ("get_reward", {"query": ["x" + PLACEHOLDER], "prompts": "p"}, 422),
        ("get_reward", {"query": ["y" * 300 + PLACEHOLDER]}, 422),
        ("get_reward", {"query": ["x" + PLACEHOLDER] * 5}, 422),
        ("get_reward", {"query": [], "more": "y" * 3000}, 413),
        ("success", {"episodes": [{}]}, 422),
        ("success", {"episodes": [{"turns": [{"action": 1}]}]}, 422),
        ("success", {"episodes": [{"turns": [{"observation": "no action"}]}]}, 422),
        ("success", {"episodes": [{"turns": [{"action": "x"}] * 9}]}, 422),
        ("success", {"episodes": [{"turns": [{"action": "y" * 150}] * 2}]}, 422),
    ],
)
def test_a_body_that_cannot_be_rated_is_rejected_with_its_location(path: str, body: Any, status: int) -> None:
    stub = Stub()
    with rated(stub, body=2_000, texts=4, text_chars=250, turns=8) as url:
        code, answer = post(f"{url}/{path}", body)
        assert code == status
        assert answer["detail"][0]["loc"][0] == "body"
        assert post(f"{url}/get_reward", {"query": ["x" + PLACEHOLDER]})[0] == 200
    assert stub.batches == [1]


def test_a_model_of_success_returns_no_hazards() -> None:
    with rated(Stub("paper")) as url:
        code, answer = post(f"{url}/get_reward", {"query": ["x" + PLACEHOLDER]})
        assert code == 409
        assert "/success" in answer["detail"][0]["msg"]
        assert post(f"{url}/success", {"episodes": [{"turns": [{"action": "x"}]}]})[1]["success"] == [[1.0, 0.99]]


def test_a_non_finite_prediction_is_an_error() -> None:
    stub = Stub()
    stub.hazards = lambda read: [np.array([np.nan]) for _ in read]  # type: ignore[method-assign]  # wrong on purpose
    with rated(stub) as url:
        code, answer = post(f"{url}/get_reward", {"query": ["x" + PLACEHOLDER]})
    assert code == 502
    assert "weights damaged" in answer["detail"]


def test_a_request_beyond_the_time_limit_is_504_and_the_server_continues() -> None:
    stub, gate = Stub(), Event()
    stub.before = lambda: gate.wait(30)
    with rated(stub, seconds=0.2) as url:
        assert post(f"{url}/get_reward", {"query": ["x" + PLACEHOLDER]})[0] == 504
        gate.set()
        assert post(f"{url}/get_reward", {"query": ["x" + PLACEHOLDER]})[0] == 200


def test_more_pending_texts_than_the_limit_are_503() -> None:
    with rated(Stub(), pending=2) as url:
        assert post(f"{url}/get_reward", {"query": ["x" + PLACEHOLDER] * 3})[0] == 503
        assert post(f"{url}/get_reward", {"query": ["x" + PLACEHOLDER] * 2})[0] == 200


# -- the clients ------------------------------------------------------------------------------------------------------
def test_our_own_server_gives_the_values_and_the_provenance_of_the_model(tmp_path: Any) -> None:
    stub = Stub("paper")
    write_jsonl(tmp_path / "in.jsonl", [searched()])
    with rated(stub) as url:
        command = ["annotate", "--with", f"success:{url}", "--set", "batch=1", str(tmp_path / "in.jsonl")]
        assert main([*command, "--out", str(tmp_path / "out.jsonl")]) == 0
    assert max(stub.batches) == 1
    first = read_groups(tmp_path / "out.jsonl")[0]
    after = [turn.values["value.pica.next"] for turn in first.turns]
    np.testing.assert_allclose(after, [0.99, 0.99 * 0.99, 0.99**2 * 0.98, 0.96])
    assert [turn.values["value.pica"] for turn in first.turns] == [1.0, *after[:2], 1.0]
    assert first.trajectories[0].provenance["value.pica"] == (
        '{"annotator":"success","model":"blake2b:0","parameters":{"kind":"paper"},"version":1}'
    )
    assert np.isfinite(credit.make("pica").assign(first).flat_advantages).all()


@pytest.mark.parametrize(("name", "kind"), [("success", "paper"), ("pica-server", "hazard")])
def test_a_client_sends_the_key_that_its_setting_names(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    monkeypatch.setenv("REWARD_KEY", "correct-horse")
    with served(KeyCheck(create_reward_app(Stub(kind)), ApiKey("correct-horse"))) as url:
        with pytest.raises(ServiceError, match="401"):
            annotate([searched()], make_annotator(f"{name}:{url}", Context({"max_attempts": 1})))
        [done] = annotate([searched()], make_annotator(f"{name}:{url}", Context({"key_variable": "REWARD_KEY"})))
    assert done.turns[0].values["value.pica.next"] == pytest.approx(0.99)


def test_the_released_format_gives_survival_from_one() -> None:
    with rated(Stub()) as url:
        annotator = make_annotator(f"pica-server:{url}/get_reward", Context({"model": "pica-3b"}))
        [done] = annotate([searched()], annotator)
    after = [turn.values["value.pica.next"] for turn in done.turns]
    np.testing.assert_allclose(after, [0.99, 0.99 * 0.99, 0.99**2 * 0.98, 0.96])
    assert '"model":"served:pica-3b"' in done.trajectories[0].provenance["value.pica"]


def test_a_branch_is_rated_with_the_turns_of_its_prefix() -> None:
    root = walk("s a b g", name="root", actions=["x", "x", "x"])
    branch = walk("a c", "failed", name="branch", actions=["xx"], parent="root", fork_turn=1)
    members = [
        replace(t, turns=tuple(replace(u, observation=f"page {u.state_key}") for u in t.turns)) for t in (root, branch)
    ]
    with rated(Stub()) as url:
        for spec in (f"success:{url}", f"pica-server:{url}"):
            [done] = annotate([Group(tuple(members), {"question": "Who?"})], make_annotator(spec))
            [turn] = done.trajectories[1].turns
            np.testing.assert_allclose([turn.values["value.pica"], turn.values["value.pica.next"]], [0.99, 0.99 * 0.98])


@pytest.mark.parametrize("searches", [0, 1, 3])
def test_a_search_rollout_is_sent_as_the_released_client_does(searches: int) -> None:
    turns, response = [], ""
    for i in range(searches):
        completion = f"<think> step  {i} </think>\n<search> query {i} </search>"
        turns.append((completion, f"\n\n<information>Doc 1(Title: T{i})  text\n</information>\n\n"))
    completion = "<think>so</think> <answer> yes </answer>"
    turns.append((completion, ""))
    made = []
    observed = "Answer the question. Question: Who was it?\n"
    for t, (completion, result) in enumerate(turns):
        made.append(Turn(f"s{t}", "a", f"s{t + 1}", observation=observed, response=completion))
        response += completion + result
        observed = result
    assert text_with_placeholders("Who was it?\n", made, PLACEHOLDER, "t") == released_query("Who was it?\n", response)


def test_texts_that_would_shift_the_placeholders_are_rejected() -> None:
    hostile = replace(searched().turns[0], action=f"look {PLACEHOLDER}")
    with pytest.raises(AnnotationError, match="placeholder"):
        text_with_placeholders("Who?", [hostile], PLACEHOLDER, "t")
    with pytest.raises(AnnotationError, match="without texts"):
        text_with_placeholders("Who?", [replace(hostile, action="", response="")], PLACEHOLDER, "t")


class Fake:
    """A client that returns one fixed reply."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def post(self, path: str, body: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "got None"),
        ({}, "got None"),
        ({"rewards": [[0.1, 0.2, 0.3]]}, "values of 2 texts"),
        ({"rewards": [[0.1, 0.2], [0.1]]}, "expected 3 values for text 0"),
        ({"rewards": [[0.1, 0.2, 0.3], 0.1]}, "expected 1 values for text 1"),
        ({"rewards": [[0.1, 0.2, "0.3"], [0.1]]}, "are not numbers"),
        ({"rewards": [[0.1, 0.2, True], [0.1]]}, "are not numbers"),
        ({"rewards": [[0.1, 0.2, float("nan")], [0.1]]}, "are not probabilities"),
        ({"rewards": [[0.1, 0.2, 1.5], [0.1]]}, "are not probabilities"),
        ({"rewards": [[0.1, 0.2, 10**400], [0.1]]}, "are not probabilities"),
    ],
)
def test_a_malformed_reply_is_rejected(answer: Any, message: str) -> None:
    client = PicaServerAnnotator(Fake(answer), model="m", placeholder=PLACEHOLDER, batch=4)  # type: ignore[arg-type]  # a stand-in
    with pytest.raises(AnnotationError, match=message):
        annotate([searched()], client)


def test_unreachable_servers_and_wrong_settings_are_reported() -> None:
    for spec in ("success:http://127.0.0.1:9", "pica-server:http://127.0.0.1:9"):
        with pytest.raises(ServiceError, match="no valid response"):
            annotate([searched()], make_annotator(spec, Context({"max_attempts": 1, "timeout": 2.0})))
        with pytest.raises(ConfigError, match="did you mean 'batch'"):
            make_annotator(spec, Context({"bacth": 2}))
    with pytest.raises(ConfigError, match="batch must be at least 1"):
        make_annotator("pica-server:http://127.0.0.1:9", Context({"batch": 0}))
    with pytest.raises(ConfigError, match="URL such as"):
        make_annotator("pica-server:nowhere")
