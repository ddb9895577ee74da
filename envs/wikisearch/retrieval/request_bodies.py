"""Parsed request bodies of the search server; errors have the types that FastAPI servers report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from creditflow.envs.http import BadRequestError
from creditflow.envs.http.limits import require_positive

__all__ = ["SearchRequest", "ServerLimits", "access_request", "search_request"]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a search server.

    Attributes:
        body: bytes of a request.
        queries: queries of a request.
        query_chars: characters of a query.
        topk: passages per query.
        pending: queries that may wait or run, over all requests; further ones get status 503.
        batch: queries searched in one call.
        seconds: longest time from arrival to response; beyond it status 504.
    """

    body: int = 1_000_000
    queries: int = 256
    query_chars: int = 10_000
    topk: int = 100
    pending: int = 1_024
    batch: int = 64
    seconds: float = 30.0

    def __post_init__(self) -> None:
        require_positive(self, "a server")

    def check(self, texts: Sequence[str], key: str) -> None:
        """Reject too many or too long texts.

        Raises:
            BadRequestError: a limit is exceeded; names it.
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
        BadRequestError: a missing key or a wrong type; names it.
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
        BadRequestError: a missing key or a wrong type; names it.
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
        raise BadRequestError("string_type", loc, "a text is expected here")
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
