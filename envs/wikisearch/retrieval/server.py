"""A search server over any engine, in Search-R1's and RewardFlow's dialects, with ASearcher's page access.

``POST /retrieve``  {"queries": […]} or {"query": "…"}, "topk", "return_scores"   → {"result": [one list per query]}
``POST /access``    {"urls": […]}                                                 → {"result": [page or null]}
``GET /health``     corpus digest, settings and load

Bodies, queries, their length, results, waiting queries and seconds are limited. Requests are searched one after the other, in one
thread beside the event loop. Needs the extra ``[serve]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.http import BadRequestError, Worker, application, json_response, read_json
from creditflow.envs.http.bodies import require_positive
from creditflow.envs.wikisearch.retrieval.base import Hit, Retriever, write_document

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["DIALECTS", "SearchRequest", "ServerLimits", "access_request", "create_app", "search_request"]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a search server.

    Attributes:
        body: bytes of a request.
        queries: queries of a request.
        query_chars: characters of a query.
        topk: passages per query.
        pending: queries that may wait or run, over all requests; further ones get status 503.
        seconds: longest time from arrival to response; beyond it status 504.
    """

    body: int = 1_000_000
    queries: int = 256
    query_chars: int = 10_000
    topk: int = 100
    pending: int = 1_024
    seconds: float = 30.0

    def __post_init__(self) -> None:
        require_positive(self, "a server")

    def check(self, texts: Sequence[str], key: str) -> None:
        """Check the number and length of texts.

        Raises:
            BadRequestError: a limit is exceeded.
        """
        if len(texts) > self.queries:
            raise BadRequestError("too_long", ("body", key), f"at most {self.queries} {key} in one request")
        if any(len(text) > self.query_chars for text in texts):
            raise BadRequestError(
                "string_too_long", ("body", key), f"{key} have at most {self.query_chars} characters each"
            )


class SearchRequest(NamedTuple):
    """Queries, passages per query (0: the server's default), and whether scores are requested."""

    queries: tuple[str, ...]
    topk: int
    scores: bool


def search_request(body: Any, dialect: str = "both") -> SearchRequest:
    """The request in a body.

    Args:
        body: parsed JSON.
        dialect: "search_r1" takes ``queries`` only, "rewardflow" ``query`` only, "both" either.

    Raises:
        BadRequestError: a missing key or a wrong type.
    """
    _object(body)
    single = dialect == "rewardflow" or (dialect == "both" and "query" in body)
    if dialect == "both" and single and "queries" in body:
        raise BadRequestError("extra_forbidden", ("body", "query"), "give 'query' or 'queries', not both")
    if single:
        queries: tuple[str, ...] = (_text(_required(body, "query"), ("body", "query")),)
    else:
        queries = _texts(_required(body, "queries"), "queries")
    scores = body.get("return_scores", False)
    if not isinstance(scores, bool):
        raise BadRequestError("bool_parsing", ("body", "return_scores"), "'return_scores' must be true or false")
    return SearchRequest(queries, _natural(body.get("topk")), scores)


def access_request(body: Any) -> tuple[str, ...]:
    """The URLs in a body.

    Raises:
        BadRequestError: a missing key or a wrong type.
    """
    _object(body)
    return _texts(_required(body, "urls"), "urls")


def _object(body: Any) -> None:
    if not isinstance(body, dict):
        raise BadRequestError("model_attributes_type", ("body",), "the body must be a JSON object")


def _required(body: dict[str, Any], key: str) -> Any:
    if key not in body:
        raise BadRequestError("missing", ("body", key), f"'{key}' is required")
    return body[key]


def _text(value: Any, loc: tuple[str | int, ...]) -> str:
    if not isinstance(value, str):
        raise BadRequestError("string_type", loc, "expected a string")
    return value


def _texts(value: Any, key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadRequestError("list_type", ("body", key), f"'{key}' must be a list of texts")
    return tuple(_text(item, ("body", key, i)) for i, item in enumerate(value))


def _natural(value: Any) -> int:
    """A number of passages: an integer ≥ 0, as a number or in digits; null counts as 0."""
    loc = ("body", "topk")
    if value is None:
        return 0
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            raise BadRequestError("int_parsing", loc, "'topk' must be a whole number") from None
    if isinstance(value, float):
        if not value.is_integer():
            raise BadRequestError("int_from_float", loc, "'topk' must be a whole number")
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRequestError("int_type", loc, "'topk' must be a whole number")
    if value < 0:
        raise BadRequestError("greater_than_equal", loc, "'topk' must not be negative")
    return value


DIALECTS: Final = ("both", "search_r1", "rewardflow")


def create_app(
    retriever: Retriever, *, topk: int = 3, dialect: str = "both", limits: ServerLimits | None = None
) -> Starlette:
    """The server as an ASGI application.

    Args:
        retriever: the engine.
        topk: passages per query where a request gives no number (or 0).
        dialect: "both", or only "search_r1" or "rewardflow".
        limits: limits of the server.

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

    worker = Worker(limits.pending, limits.seconds)

    async def retrieve(request: Request) -> Response:
        parsed = search_request(await read_json(request, limits.body), dialect)
        limits.check(parsed.queries, "queries")
        if parsed.topk > limits.topk:
            raise BadRequestError("less_than_equal", ("body", "topk"), f"topk is at most {limits.topk}")
        k = parsed.topk or topk
        results = await worker.run(lambda: retriever.search(parsed.queries, k), len(parsed.queries))
        return json_response({"result": [[_row(hit, parsed.scores) for hit in hits] for hits in results]})

    async def access(request: Request) -> Response:
        urls = access_request(await read_json(request, limits.body))
        limits.check(urls, "urls")
        pages = await worker.run(lambda: [_page(retriever, url) for url in urls], len(urls))
        return json_response({"result": pages})

    async def health(_: Request) -> Response:
        return json_response(
            {"status": "ok", "digest": retriever.digest, "topk": topk, "dialect": dialect, **worker.state()}
        )

    endpoints = [("POST", "/retrieve", retrieve), ("POST", "/access", access), ("GET", "/health", health)]
    return application(endpoints, worker, "search")


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
