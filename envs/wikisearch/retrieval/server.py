"""A search server over any engine, in Search-R1's and RewardFlow's dialects, with ASearcher's page access.

``POST /retrieve``  {"queries": […]} or {"query": "…"}, "topk", "return_scores"   → {"result": [one list per query]}
``POST /access``    {"urls": […]}                                                 → {"result": [page or null]}
``GET /health``     corpus digest, settings and load

Bodies, queries, their length, results, waiting queries and seconds are limited. Requests that arrive together are
searched together, in one thread beside the event loop. Needs the extra ``[serve]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.http import BadRequestError, Batcher, application, json_response, read_json
from creditflow.envs.wikisearch.retrieval.base import Hit, Retriever
from creditflow.envs.wikisearch.retrieval.documents import write_document
from creditflow.envs.wikisearch.retrieval.request_bodies import ServerLimits, access_request, search_request

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["DIALECTS", "create_app"]

DIALECTS: Final = ("both", "search_r1", "rewardflow")
Queries = tuple[Sequence[str], int]  # queries, and passages for each


def create_app(
    retriever: Retriever,
    *,
    topk: int = 3,
    dialect: str = "both",
    limits: ServerLimits | None = None,
    hosts: Sequence[str] = (),
) -> Starlette:
    """The server as an ASGI application.

    Args:
        retriever: the engine.
        topk: passages per query where a request gives no number (or 0).
        dialect: "both", or only "search_r1" or "rewardflow".
        limits: limits of the server.
        hosts: host names that it accepts besides this machine's own.

    Raises:
        ConfigError: a wrong argument.
        MissingExtraError: starlette is not installed.
    """
    limits = limits or ServerLimits()
    if dialect not in DIALECTS or not 1 <= topk <= limits.topk:
        raise ConfigError(
            f"dialect must be one of {', '.join(DIALECTS)} and topk from 1 to {limits.topk}, got {short_repr(dialect)} and "
            f"{short_repr(topk)}"
        )

    def search(batch: Sequence[Queries]) -> list[list[list[Hit]]]:
        most = max(k for _, k in batch)
        hits = iter(retriever.search([query for queries, _ in batch for query in queries], most))
        return [[next(hits)[:k] for _ in queries] for queries, k in batch]

    engine: Batcher[Queries, list[list[Hit]]] = Batcher(search, limits)

    async def retrieve(request: Request) -> Response:
        parsed = search_request(await read_json(request, limits.body), dialect)
        limits.check(parsed.queries, "queries")
        if parsed.topk > limits.topk:
            raise BadRequestError("less_than_equal", ("body", "topk"), f"topk is at most {limits.topk}")
        k = parsed.topk or topk
        results = await engine.submit((parsed.queries, k), len(parsed.queries)) if parsed.queries else []
        return json_response({"result": [[_row(hit, parsed.scores) for hit in hits] for hits in results]})

    async def access(request: Request) -> Response:
        urls = access_request(await read_json(request, limits.body))
        limits.check(urls, "urls")
        pages = await engine.call(lambda: [_page(retriever, url) for url in urls], len(urls))
        return json_response({"result": pages})

    async def health(_: Request) -> Response:
        return json_response(
            {"status": "ok", "digest": retriever.digest, "topk": topk, "dialect": dialect, **engine.state()}
        )

    endpoints = [("POST", "/retrieve", retrieve), ("POST", "/access", access), ("GET", "/health", health)]
    return application(endpoints, engine, "search", hosts=hosts)


def _row(hit: Hit, scores: bool) -> dict[str, Any]:
    document = write_document(hit.passage)
    return {"document": document, "score": hit.score} if scores else dict(document)


def _page(retriever: Retriever, url: str) -> dict[str, str] | None:
    """A page by id, title or URL: the last part of its path, or its ``title`` parameter."""
    try:
        split = urlsplit(url) if "://" in url else None
    except ValueError:  # not a URL
        split = None
    name = url
    if split is not None:
        titled = [value for key, _, value in (pair.partition("=") for pair in split.query.split("&")) if key == "title"]
        name = unquote(titled[0] if titled else split.path.rpartition("/")[2]).replace("_", " ")
    for candidate in dict.fromkeys((url, name)):
        passages = retriever.visit([candidate])[0] if candidate else None
        if passages:
            text = "\n".join(passage.text for passage in passages)
            return {"url": url, "title": passages[0].title, "contents": f"{passages[0].title}\n{text}"}
    return None
