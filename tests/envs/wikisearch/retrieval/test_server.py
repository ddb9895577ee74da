"""The search server: parity with the published one, its limits, and its behaviour under load."""

import asyncio
import json
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from threading import Event
from typing import Any

import pytest
from helpers.shared_data import shared_files

from creditflow.envs.errors import ConfigError, ServiceError
from creditflow.envs.wikisearch.retrieval.base import Hit, Passage, read_document
from creditflow.envs.wikisearch.retrieval.server import ServerLimits

PASSAGES = [Passage(str(i), f"Title {i}", f"text {i}", f"Title {i}") for i in range(5)]


def golden() -> list[Any]:
    found = []
    for path in shared_files("conformance/search_credit/*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["family"] == "retrieve_api":
            found += [pytest.param(case, id=case["id"]) for case in data["cases"]]
    return found


class Stub:
    """An engine that finds the first passages."""

    digest = "stub"

    def __init__(
        self, passages: Sequence[Passage] = PASSAGES, scores: Callable[[int], float] = lambda rank: 5.0 - rank
    ):
        self.passages, self.scores = passages, scores
        self.batches: list[tuple[str, ...]] = []
        self.before: Callable[[], None] = lambda: None

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.before()
        self.batches.append(tuple(queries))
        hits = [Hit(passage, self.scores(rank)) for rank, passage in enumerate(self.passages[:k])]
        return [hits for _ in queries]

    def visit(self, ids: Sequence[str], goal: str = "") -> list[tuple[Passage, ...] | None]:
        return [tuple(p for p in self.passages if p.title == name) or None for name in ids]

    def fetch(self, ids: Sequence[str]) -> list[Passage]:
        return []


Post = Callable[..., Coroutine[Any, Any, tuple[int, Any]]]


def held(gate: Event) -> None:
    """Wait for the gate; a test that forgets to open it fails instead of hanging."""
    assert gate.wait(30)


def with_app(engine: Stub, use: Callable[[Post], Awaitable[None]], **options: Any) -> None:
    """Run ``use`` against the application, inside its lifespan."""
    pytest.importorskip("starlette", reason="the server needs the extra [serve]")
    from creditflow.envs.wikisearch.retrieval.server import create_app

    app = create_app(engine, **options)

    async def post(path: str, body: Any, *, method: str = "POST", chunks: Sequence[bytes] = ()) -> tuple[int, Any]:
        parts = list(chunks) or [body if isinstance(body, bytes) else json.dumps(body).encode()]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if parts:
                return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path, "root_path": "",
            "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"127.0.0.1:80")], "scheme": "http", "server": ("127.0.0.1", 80), "client": ("t", 1),
        }  # fmt: skip
        await app(scope, receive, send)
        text = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], json.loads(text)

    async def main() -> None:
        async with app.router.lifespan_context(app):
            await use(post)

    asyncio.run(main())


@pytest.mark.parametrize("case", golden())
def test_bodies_are_those_of_the_published_server(case: Any) -> None:
    """Where it fails without ``return_scores``, ours returns a list per query (as ASearcher's does)."""
    given_case, wanted = case["input"], case["expected"]
    passages = [read_document(row, quotes=True) for row in given_case["stub_docs"]]
    engine = Stub(passages, lambda rank: 3.5 - rank)
    assert given_case["stub_scores"] == "3.5 - rank"

    async def use(post: Post) -> None:
        status, body = await post(given_case["path"], given_case["json"])
        request = given_case["json"]
        if status == 422:
            assert wanted["status"] == 422
            found = [{"type": row["type"], "loc": row["loc"]} for row in body["detail"]]
            assert found == [{"type": row["type"], "loc": row["loc"]} for row in wanted["body"]["detail"]]
        elif request.get("return_scores"):
            assert (status, body) == (wanted["status"], wanted["body"])
        else:
            lists = [given_case["stub_docs"][: request.get("topk") or given_case["default_topk"]]] * len(
                request["queries"]
            )
            assert (status, body) == (200, {"result": lists})

    with_app(engine, use, topk=given_case["default_topk"], dialect="search_r1")


def test_a_single_query_gets_a_list_of_one_list() -> None:
    async def use(post: Post) -> None:
        status, body = await post("/retrieve", {"query": "a", "topk": 1, "return_scores": True})
        document = {"id": "0", "contents": "Title 0\ntext 0"}
        assert (status, body) == (200, {"result": [[{"document": document, "score": 5.0}]]})

    with_app(Stub(), use)


def test_pages_are_found_by_title_and_by_url() -> None:
    async def use(post: Post) -> None:
        urls = [
            "Title 1",
            "https://x.org/wiki/Title_2",
            "https://x.org/w/index.php?title=Title_3",
            "https://x.org/none",
            "",
        ]
        _, body = await post("/access", {"urls": urls})
        assert [page and page["contents"].partition("\n")[0] for page in body["result"]] == [
            "Title 1", "Title 2", "Title 3", None, None,
        ]  # fmt: skip

    with_app(Stub(), use)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422), (b"{", 422), (b"[" * 100_000, 422), (b"\xff\xfe", 422), ([], 422), ({"queries": "a"}, 422), ({"queries": [1]}, 422),
        ({"queries": ["a"], "topk": -1}, 422), ({"queries": ["a"], "topk": 101}, 422), ({"queries": ["a"] * 300}, 422),
        ({"queries": ["x" * 20_000]}, 422), ({"queries": ["x" * 1_000_000]}, 413), ({"queries": ["\x00\ud800"]}, 200),
        ({"queries": ["a"], "topk": True}, 422), ({"queries": ["a"], "return_scores": "yes"}, 422),
    ],
)  # fmt: skip
def test_malformed_bodies_are_rejected_without_a_search(body: Any, status: int) -> None:
    engine = Stub()

    async def use(post: Post) -> None:
        assert (await post("/retrieve", body))[0] == status

    with_app(engine, use)
    assert bool(engine.batches) == (status == 200)


def test_an_endless_body_is_read_no_further_than_the_limit() -> None:
    async def use(post: Post) -> None:
        status, _ = await post("/retrieve", None, chunks=[b" " * 400_000] * 4)
        assert status == 413

    with_app(Stub(), use)


def test_every_request_that_waits_is_searched() -> None:
    engine = Stub()

    async def use(post: Post) -> None:
        answers = await asyncio.gather(
            *(post("/retrieve", {"queries": [f"q{i}"], "topk": 1 + i % 3}) for i in range(20))
        )
        assert [len(body["result"][0]) for _, body in answers] == [1 + i % 3 for i in range(20)]

    with_app(engine, use)
    assert sorted(query for batch in engine.batches for query in batch) == sorted(f"q{i}" for i in range(20))


def test_requests_beyond_the_queue_limit_get_status_503() -> None:
    engine, gate = Stub(), Event()
    engine.before = lambda: held(gate)

    async def use(post: Post) -> None:
        waiting = [asyncio.create_task(post("/retrieve", {"queries": ["a"] * 4})) for _ in range(2)]
        await asyncio.sleep(0)
        for task in waiting:  # let both reach the queue
            for _ in range(5):
                await asyncio.sleep(0)
            assert not task.done()
        assert (await post("/retrieve", {"queries": ["b"]}))[0] == 503
        gate.set()
        assert [status for status, _ in await asyncio.gather(*waiting)] == [200, 200]
        assert (await post("/retrieve", {"queries": ["b"]}))[0] == 200

    with_app(engine, use, limits=ServerLimits(pending=8))


def test_a_search_beyond_the_time_limit_gets_status_504_and_the_server_continues() -> None:
    engine, gate = Stub(), Event()
    engine.before = lambda: held(gate)

    async def use(post: Post) -> None:
        assert (await post("/retrieve", {"queries": ["a"]}))[0] == 504
        gate.set()
        assert (await post("/retrieve", {"queries": ["b"]}))[0] == 200
        _, health = await post("/health", b"", method="GET")
        assert health["pending"] == 0

    with_app(engine, use, limits=ServerLimits(seconds=0.2))


def test_a_failing_engine_is_reported_and_the_server_continues() -> None:
    engine = Stub()

    def fail() -> None:
        raise ServiceError("upstream is gone")

    async def use(post: Post) -> None:
        engine.before = fail
        assert await post("/retrieve", {"queries": ["a"]}) == (502, {"detail": "upstream is gone"})
        engine.before = lambda: None
        assert (await post("/retrieve", {"queries": ["a"]}))[0] == 200

    with_app(engine, use)


def test_memory_stays_bounded_under_load() -> None:
    engine = Stub()
    peaks: list[int] = []

    async def use(post: Post) -> None:
        async def wave() -> None:
            body = {"queries": ["x" * 5_000] * 16, "topk": 5}
            statuses = [status for status, _ in await asyncio.gather(*(post("/retrieve", body) for _ in range(100)))]
            assert set(statuses) <= {200, 503}
            engine.batches.clear()

        tracemalloc.start()
        for _ in range(6):
            await wave()
            peaks.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()

    with_app(engine, use)
    assert peaks[-1] - peaks[1] < 2_000_000  # what is kept does not grow from wave to wave


def test_an_unknown_dialect_is_a_configuration_error() -> None:
    async def use(post: Post) -> None:
        raise AssertionError

    with pytest.raises(ConfigError, match="dialect"):
        with_app(Stub(), use, dialect="msgpack")
