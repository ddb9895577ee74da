"""What search clients may send, checked by hand into plain values, with the error types that FastAPI servers report."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["BadRequestError", "SearchRequest", "access_request", "search_request"]


class BadRequestError(Exception):
    """A request that cannot be served.

    Args:
        kind: machine-readable type, as pydantic names it where it has a name.
        loc: path to what is wrong, beginning with "body".
        message: for people.
        status: of the answer.
    """

    def __init__(self, kind: str, loc: tuple[str | int, ...], message: str, status: int = 422) -> None:
        super().__init__(message)
        self.kind, self.loc, self.status = kind, loc, status


class SearchRequest(NamedTuple):
    """Queries, list length (0: the server's own), and whether scores are wanted."""

    queries: tuple[str, ...]
    topk: int
    scores: bool


def search_request(body: Any, dialect: str = "both") -> SearchRequest:
    """The request in a body.

    Args:
        body: parsed JSON.
        dialect: "search_r1" takes ``queries`` only, "rewardflow" ``query`` only, "both" either.

    Raises:
        BadRequestError: what is missing or of the wrong type.
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
        BadRequestError: what is missing or of the wrong type.
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
    """A list length: a whole number ≥ 0, written as a number or in digits; null counts as 0."""
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
