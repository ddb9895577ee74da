"""Search servers that are unreachable, slow or malformed; and the LLM judge, which uses the same client."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, DataError, RetrievalError
from creditflow.envs.http.client import JsonClient
from creditflow.envs.wikisearch.grading.judge import ModelJudge, make_judge
from creditflow.envs.wikisearch.retrieval.remote import HttpRetriever

DOCUMENT = {"id": "1", "contents": '"Inception"\nA film.'}
Answer = Callable[[BaseHTTPRequestHandler, Any], None]


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A server on a free loopback port that answers every POST by ``answer``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with contextlib.suppress(OSError):  # the client may hang up: some tests are about that
                answer(self, body)

        def log_message(self, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def replying(body: Any, status: int = 200) -> Answer:
    """A handler that sends this body."""

    def answer(handler: BaseHTTPRequestHandler, _: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def result(*lists: Any) -> dict[str, Any]:
    return {"result": list(lists)}


def retriever(url: str | list[str], **options: Any) -> HttpRetriever:
    return HttpRetriever(url, **{"max_attempts": 2, "backoff": 0.0, "timeout": 5.0, **options})


def test_search_r1s_dialect_sends_all_queries_at_once() -> None:
    seen: list[Any] = []

    def answer(handler: BaseHTTPRequestHandler, body: Any) -> None:
        seen.append(body)
        replying(result(*[[{"document": DOCUMENT, "score": 2.5}]] * len(body["queries"])))(handler, body)

    with serving(answer) as url:
        engine = retriever(url)
        found = engine.search(["a", "b"], 4)
    assert seen == [{"queries": ["a", "b"], "topk": 4, "return_scores": True}]
    assert [(hits[0].passage.title, hits[0].score) for hits in found] == [("Inception", 2.5)] * 2
    assert engine.fetch(["1"]) == [found[0][0].passage]
    assert engine.visit(["Inception"]) == [None]  # no endpoint opens pages: the environment returns the passages seen


def test_rewardflows_dialect_sends_one_query_a_request() -> None:
    seen: list[Any] = []

    def answer(handler: BaseHTTPRequestHandler, body: Any) -> None:
        seen.append(body["query"])
        replying(result([{"document": DOCUMENT, "score": 1}]))(handler, body)

    with serving(answer) as url:
        assert len(retriever(url, dialect="rewardflow").search(["a", "b"], 1)) == 2
    assert seen == ["a", "b"]


def test_asearchers_pages_are_visited_by_url() -> None:
    page = {"url": "http://w/Inception", "contents": "Inception\nThe whole page."}
    with serving(replying(result(page, None))) as url:
        found = retriever(url, dialect="asearcher").visit(["http://w/Inception", "http://w/None"])
    assert found[1] is None
    assert found[0] is not None
    assert (found[0][0].text, found[0][0].page) == ("The whole page.", "http://w/Inception")


def test_documents_without_scores_and_longer_lists_than_requested_are_accepted() -> None:
    with serving(replying(result([DOCUMENT] * 9))) as url:
        assert [hit.score for hit in retriever(url).search(["a"], 2)[0]] == [0.0, 0.0]


MALFORMED = {
    "no object": [1],
    "no result": {"results": []},
    "too few lists": result([]),
    "too many lists": result([], [], []),
    "a flat list": {"result": [DOCUMENT, DOCUMENT]},
    "no document": result([{"document": None, "score": 1}], []),
    "no contents": result([{"document": {"id": "1"}, "score": 1}], []),
    "a score that is none": result([{"document": DOCUMENT, "score": "high"}], []),
    "an infinite score": b'{"result": [[{"document": {"id": "1", "contents": "a"}, "score": Infinity}], []]}',
    "a huge document": result([{"document": {"id": "1", "contents": "a\n" + "x" * 1_000_001}, "score": 1}], []),
    "no JSON": b"<html>",
    "half of it": b'{"result": [[',
    "deep JSON": b"[" * 100_000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_response_is_an_error(body: Any) -> None:
    with serving(replying(body)) as url, pytest.raises(RetrievalError):
        retriever(url).search(["a", "b"], 3)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**90), 10**90) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
NOT_PLAIN = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1" * 101,
    "9" * 5000,
    '{"a": 1, "a": 2}',
    "[" * 100 + "]" * 100,
)


def test_a_client_returns_plain_data_and_nothing_else() -> None:
    """A number or an object that a reader would take for something else never leaves the client."""
    sent = [b""]

    def answer(handler: BaseHTTPRequestHandler, _: Any) -> None:
        replying(sent[0])(handler, None)

    with serving(answer) as url:
        client = JsonClient([url], max_attempts=1)

        @settings(max_examples=60)
        @given(PLAIN, st.sampled_from(["", *NOT_PLAIN]))
        def exchange(value: Any, odd: str) -> None:
            sent[0] = json.dumps([value, "odd"]).replace('"odd"', odd or '"odd"').encode()
            if odd:
                with pytest.raises(RetrievalError, match="the response"):
                    client.post("/", {})
            else:
                assert client.post("/", {}) == [value, "odd"]

        exchange()


def test_an_endless_response_is_cut_at_the_limit() -> None:
    def answer(handler: BaseHTTPRequestHandler, _: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * 65_536)

    with serving(answer) as url, pytest.raises(RetrievalError, match="larger than"):
        JsonClient([url], max_attempts=1, max_bytes=1_000_000).post("/retrieve", {})


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_server_that_sends_byte_by_byte_times_out_at_the_deadline(part: str) -> None:
    over = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, _: Any) -> None:
        if part == "body":
            handler.send_response(200)
            handler.end_headers()
        while not over.wait(0.02):
            handler.wfile.write(b"X")

    with serving(answer) as url:
        start = time.monotonic()
        with pytest.raises(RetrievalError, match="within"):
            JsonClient([url], timeout=0.3, max_attempts=1).post("/retrieve", {})
        over.set()
    assert time.monotonic() - start < 60  # it ended at all: without the deadline it never would


def test_an_unreachable_server_is_retried_with_growing_pauses_and_then_reported() -> None:
    pauses: list[float] = []
    client = JsonClient(["http://127.0.0.1:9"], max_attempts=4, backoff=0.5, sleep=pauses.append)
    with pytest.raises(RetrievalError, match=r"127.0.0.1:9/retrieve: ConnectionRefusedError"):
        client.post("/retrieve", {})
    assert pauses == [0.5, 1.0, 2.0]


def test_the_next_server_is_tried_when_one_is_unreachable() -> None:
    with serving(replying(result([]))) as url:
        engine = retriever(["http://127.0.0.1:9", url])
        assert engine.search(["a"], 3) == [[]]
        assert engine.search(["a"], 3) == [[]]


def test_a_rejected_request_is_not_repeated_but_one_to_an_overloaded_server_is() -> None:
    asked: list[int] = []

    def answering(status: int) -> Answer:
        def answer(handler: BaseHTTPRequestHandler, body: Any) -> None:
            asked.append(status)
            replying({}, status)(handler, body)

        return answer

    for status, times in ((422, 1), (503, 3)):
        asked.clear()
        with serving(answering(status)) as url, pytest.raises(RetrievalError, match=f"status {status}"):
            JsonClient([url], max_attempts=3, backoff=0.0).post("/x", {})
        assert len(asked) == times


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://x", "file:///etc/passwd", "http://"])
def test_urls_that_name_no_server_are_configuration_errors(url: str) -> None:
    with pytest.raises(ConfigError, match="URL"):
        HttpRetriever(url)


def test_unknown_server_dialects_are_errors_with_the_near_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'search_r1'"):
        HttpRetriever("http://x", dialect="searchr1")


def test_passages_never_seen_cannot_be_fetched_and_old_ones_are_forgotten() -> None:
    rows = [{"document": {"id": str(i), "contents": f"t{i}\nx"}, "score": 1} for i in range(5)]
    with serving(replying(result(rows))) as url:
        engine = retriever(url, remember=3)
        engine.search(["a"], 5)
    assert [passage.id for passage in engine.fetch(["4", "2"])] == ["4", "2"]
    with pytest.raises(DataError, match="not seen"):
        engine.fetch(["0"])


def test_an_episode_over_a_server_is_restored_in_another_instance(tmp_path: Path) -> None:
    import creditflow

    path = tmp_path / "q.jsonl"
    row = {"question": "Who made Inception?", "answer": "Nolan", "evidences": [["Inception", "director", "Nolan"]]}
    path.write_text(json.dumps({**row, "supporting_facts": [["Inception", 0]]}) + "\n", encoding="utf-8")
    with serving(replying(result([{"document": DOCUMENT, "score": 1}]))) as url:
        options: dict[str, Any] = {"questions": str(path), "retriever": {"url": url, "max_attempts": 1}}
        one, other = (creditflow.make("wikisearch", **options).unwrapped for _ in range(2))
        one.reset(seed=0)
        info = one.step(one.oracle.optimal_actions(one.get_state())[0])[4]  # type: ignore[attr-defined]  # an AgentEnv
        assert info["evidence"] == 1
        other.set_state(one.get_state())  # type: ignore[attr-defined]  # an AgentEnv
        best = other.oracle.optimal_actions(other.get_state())  # type: ignore[attr-defined]  # an AgentEnv
    assert best == ("answer: Nolan",)
    assert other.step(best[0])[4]["success"]


# -- the judge --------------------------------------------------------------------------------------------------------
def chat(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}}]}


@pytest.mark.parametrize(("text", "score"), [("CORRECT", 1.0), ("incorrect.", 0.0), ("Verdict: Correct", 1.0)])
def test_a_verdict_is_parsed(text: str, score: float) -> None:
    with serving(replying(chat(text))) as url:
        assert ModelJudge(url, "m", max_attempts=1)("q", ["g"], "a") == score


@pytest.mark.parametrize("body", [chat("maybe"), chat("CORRECT or INCORRECT"), chat(""), {}, {"choices": []}, [1]])
def test_no_verdict_is_an_error(body: Any) -> None:
    with serving(replying(body)) as url, pytest.raises(RetrievalError):
        ModelJudge(url, "m", max_attempts=1)("q", ["g"], "a")


def test_verdicts_are_requested_once_and_cached_in_a_file(tmp_path: Path) -> None:
    asked: list[Any] = []

    def answer(handler: BaseHTTPRequestHandler, body: Any) -> None:
        asked.append(body)
        replying(chat("CORRECT"))(handler, body)

    cache = str(tmp_path / "verdicts.jsonl")
    with serving(answer) as url:
        for _ in range(2):
            judge = make_judge({"url": url, "model": "m", "cache": cache})
            assert judge("q", ["g"], "a") == judge("q", ["g"], "a") == 1.0
    assert len(asked) == 1
    assert asked[0]["temperature"] == 0
    assert json.loads(asked[0]["messages"][1]["content"]) == {"question": "q", "references": ["g"], "candidate": "a"}


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text('{"key": "k", "correct": true}\n{"key"\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        ModelJudge("http://127.0.0.1:9", "m", cache=str(tmp_path / "v.jsonl"))


def test_unknown_judge_options_are_configuration_errors() -> None:
    with pytest.raises(ConfigError, match="url, model"):
        make_judge({"url": "http://x", "model": "m", "temperature": 1})
