"""Checks of a client's messages before OpenEnv's own routes read them.

OpenEnv ends a session, with a message that names no cause, when a message is nested deeply, is not an object, has an integer
of thousands of digits, or contains a lone surrogate, which its JSON writer cannot encode.
"""

from __future__ import annotations

import json
from typing import Any, Final

from openenv.core.env_server.types import WSErrorCode, WSErrorResponse

from creditflow.envs.reading.json_text import decode_json

__all__ = ["error_text", "json_fault", "message_fault"]

TYPES: Final = ("reset", "step", "state", "close", "mcp")


def json_fault(text: str) -> tuple[Any, str]:
    """Return the value of a JSON text and "", or None and why it is rejected."""
    try:
        value = decode_json(text, locate=False)
        if "\\u" in text:  # an escape, so perhaps half a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None, "a text contains half of a surrogate pair"
    except ValueError as error:
        return None, str(error)[:200]
    except RecursionError:
        return None, "nested too deeply"
    return value, ""


def message_fault(message: dict[str, Any], limit: int) -> tuple[str, WSErrorCode] | None:
    """Return why a WebSocket message is rejected, and OpenEnv's code for that; None if its routes may read it.

    Args:
        message: event of the ASGI server.
        limit: most bytes of a message.
    """
    text = message.get("text")
    if text is None:
        return "a message is a JSON text, this one is binary", WSErrorCode.INVALID_JSON
    if len(text) > limit:
        return f"a message has at most {limit} bytes", WSErrorCode.VALIDATION_ERROR
    value, fault = json_fault(text)
    if fault:
        return f"a message must be JSON: {fault}", WSErrorCode.INVALID_JSON
    if not isinstance(value, dict):
        return f"a message is an object, got {type(value).__name__}", WSErrorCode.VALIDATION_ERROR
    if value.get("type") not in TYPES:
        return f"the type of a message is one of {', '.join(TYPES)}", WSErrorCode.UNKNOWN_TYPE
    return None


def error_text(message: str, code: WSErrorCode) -> str:
    """Return an error in OpenEnv's format."""
    return str(WSErrorResponse(data={"message": message, "code": code}).model_dump_json())
