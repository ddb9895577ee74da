"""Request bodies, read within a limit, and the limits of a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from creditflow.envs.reading.json_text import decode_json

if TYPE_CHECKING:
    from starlette.requests import Request
from dataclasses import fields

from creditflow.envs.errors import ConfigError

__all__ = ["BadRequestError", "read_body", "read_json", "require_positive"]


class BadRequestError(Exception):
    """A malformed request.

    Args:
        kind: machine-readable type, with pydantic's name if it has one.
        loc: path to the error, beginning with "body".
        message: human-readable message.
        status: status code of the response.
    """

    def __init__(self, kind: str, loc: tuple[str | int, ...], message: str, status: int = 422) -> None:
        super().__init__(message)
        self.kind, self.loc, self.status = kind, loc, status


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request, of at most ``limit`` bytes.

    Raises:
        BadRequestError: the body is larger.
    """
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BadRequestError("too_large", ("body",), f"a body has at most {limit} bytes", 413)
        chunks.append(chunk)
    return b"".join(chunks)


async def read_json(request: Request, limit: int) -> Any:
    """Return the parsed JSON body of a request, of at most ``limit`` bytes.

    Raises:
        BadRequestError: a larger body, invalid JSON, or a repeated key.
    """
    body = await read_body(request, limit)
    try:
        return decode_json(body.decode(json.detect_encoding(body), "surrogatepass"))
    except ValueError as error:
        raise BadRequestError("json_invalid", ("body",), f"the body must be JSON: {str(error)[:80]}") from error


def require_positive(limits: Any, what: str) -> None:
    """Check a dataclass of limits: those whose default is an integer must be at least 1, the others above 0.

    Raises:
        ConfigError: a limit is too low.
    """
    for field in fields(limits):
        value = getattr(limits, field.name)
        if value < 1 if isinstance(field.default, int) else value <= 0:
            raise ConfigError(f"every limit of {what} must be positive, got {limits}")
