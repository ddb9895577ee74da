"""A search server over any engine, in Search-R1's and RewardFlow's dialects, with ASearcher's page access.

``POST /retrieve``  {"queries": […]} or {"query": "…"}, "topk", "return_scores"   → {"result": [[…] a query]}
``POST /access``    {"urls": […]}                                                 → {"result": [page or null]}
``GET /health``     what is served, how busy it is

Everything is bounded: body, queries, their length, list length, waiting queries, seconds. Requests that arrive together
are searched together, in one thread beside the event loop. Needs the extra ``[serve]``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from creditflow.envs.errors import ConfigError, CreditflowError, MissingExtraError
from creditflow.envs.wikisearch.documents import write_document
from creditflow.envs.wikisearch.request_bodies import BadRequestError, ServerLimits, access_request, search_request
from creditflow.envs.wikisearch.retrieval import Hit, Retriever

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

__all__ = ["DIALECTS", "create_app"]

DIALECTS: Final = ("both", "search_r1", "rewardflow")


class _OverloadedError(Exception):
    """Too many queries wait."""


class _Engine:
    """Runs queries in batches in one thread, first come first served."""

    def __init__(self, retriever: Retriever, limits: ServerLimits) -> None:
        self.retriever, self.limits = retriever, limits
        self.pending = self.served = self.refused = 0
        self._pool = ThreadPoolExecutor(1, "search")
        self._queue: asyncio.Queue[tuple[Sequence[str], int, asyncio.Future[list[list[Hit]]]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The results of one request.

        Raises:
            _OverloadedError: too many queries wait already.
            TimeoutError: it took too long.
        """
        if not queries:
            return []
        if self.pending + len(queries) > self.limits.pending:
            self.refused += 1
            raise _OverloadedError
        self.pending += len(queries)
        future: asyncio.Future[list[list[Hit]]] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((queries, k, future))
            found = await asyncio.wait_for(future, self.limits.seconds)
        finally:
            self.pending -= len(queries)
        self.served += len(queries)
        return found

    async def call(self, function: Callable[[], Any]) -> Any:
        """Anything else, in the same thread."""
        loop = asyncio.get_running_loop()
        return await asyncio.wait_for(loop.run_in_executor(self._pool, function), self.limits.seconds)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            size = len(batch[0][0])
            while size < self.limits.batch and not self._queue.empty():
                batch.append(self._queue.get_nowait())
                size += len(batch[-1][0])
            batch = [entry for entry in batch if not entry[2].done()]  # the caller has given up
            if not batch:
                continue
            queries = [query for entry in batch for query in entry[0]]
            most = max(k for _, k, _ in batch)
            try:
                found = await loop.run_in_executor(self._pool, self.retriever.search, queries, most)
            except Exception as error:  # noqa: BLE001 - handed to every caller of the batch, who reports it
                for _, _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            at = 0
            for asked, k, future in batch:
                if not future.done():
                    future.set_result([hits[:k] for hits in found[at : at + len(asked)]])
                at += len(asked)


def create_app(
    retriever: Retriever, *, topk: int = 3, dialect: str = "both", limits: ServerLimits | None = None
) -> Starlette:
    """The server as an ASGI application.

    Args:
        retriever: the engine.
        topk: passages a query when a request names no number (or 0).
        dialect: "both", or only "search_r1" or "rewardflow".
        limits: what it takes.

    Raises:
        ConfigError: a wrong argument.
        MissingExtraError: starlette is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError("starlette, which the search server runs on,", "serve") from error
    limits = limits or ServerLimits()
    if dialect not in DIALECTS or not 1 <= topk <= limits.topk:
        raise ConfigError(f"dialect is one of {', '.join(DIALECTS)} and topk 1 to {limits.topk}: {dialect!r}, {topk!r}")
    engine = _Engine(retriever, limits)

    async def retrieve(request: Request) -> JSONResponse:
        asked = search_request(await _body(request, limits), dialect)
        limits.check(asked.queries, "queries")
        if asked.topk > limits.topk:
            raise BadRequestError("less_than_equal", ("body", "topk"), f"topk is at most {limits.topk}")
        k = asked.topk or topk
        found = await engine.search(asked.queries, k)
        return JSONResponse({"result": [[_row(hit, asked.scores) for hit in hits] for hits in found]})

    async def access(request: Request) -> JSONResponse:
        urls = access_request(await _body(request, limits))
        limits.check(urls, "urls")
        pages = await engine.call(lambda: [_page(retriever, url) for url in urls])
        return JSONResponse({"result": pages})

    async def health(request: Request) -> JSONResponse:  # noqa: ARG001 - a route takes the request
        state = {"pending": engine.pending, "served": engine.served, "refused": engine.refused}
        return JSONResponse({"status": "ok", "digest": retriever.digest, "topk": topk, "dialect": dialect, **state})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:  # noqa: ARG001 - the signature is starlette's
        engine.start()
        yield
        await engine.stop()

    routes = [
        Route("/retrieve", retrieve, methods=["POST"]),
        Route("/access", access, methods=["POST"]),
        Route("/health", health, methods=["GET"]),
    ]

    async def bad_request(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001 - starlette's signature
        assert isinstance(error, BadRequestError)  # noqa: S101 - registered for it alone
        return JSONResponse({"detail": [{"type": error.kind, "loc": list(error.loc), "msg": str(error)}]}, error.status)

    def failing(status: int, text: str = "", **headers: str) -> Callable[..., Awaitable[JSONResponse]]:
        async def answer(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001 - starlette's signature
            return JSONResponse({"detail": text or str(error)[:200]}, status, headers)

        return answer

    handlers: dict[Any, Any] = {
        BadRequestError: bad_request,
        _OverloadedError: failing(503, "too many queries wait; try again", **{"Retry-After": "1"}),
        TimeoutError: failing(504, "the search took too long"),
        ClientDisconnect: failing(400, "the client is gone"),
        CreditflowError: failing(502),
    }
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)


async def _body(request: Request, limits: ServerLimits) -> Any:
    """The JSON body, read no further than the limit."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limits.body:
            raise BadRequestError("too_large", ("body",), f"a body has at most {limits.body} bytes", 413)
        parts.append(part)
    try:
        return json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise BadRequestError("json_invalid", ("body",), f"the body must be JSON: {str(error)[:80]}") from error


def _row(hit: Hit, scores: bool) -> dict[str, Any]:
    document = write_document(hit.passage)
    return {"document": document, "score": hit.score} if scores else dict(document)


def _page(retriever: Retriever, url: str) -> dict[str, str] | None:
    """A page by id, title or URL: the last part of its path, or its ``title`` parameter."""
    parts = urlsplit(url) if "://" in url else None
    name = url
    if parts is not None:
        titled = [value for key, _, value in (pair.partition("=") for pair in parts.query.split("&")) if key == "title"]
        name = unquote(titled[0] if titled else parts.path.rpartition("/")[2]).replace("_", " ")
    for candidate in dict.fromkeys((url, name)):
        found = retriever.visit([candidate])[0] if candidate else None
        if found:
            text = "\n".join(passage.text for passage in found)
            return {"url": url, "title": found[0].title, "contents": f"{found[0].title}\n{text}"}
    return None
