"""A client of the OpenEnv server that may also send what no client would."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit


def connected(url: str, path: str = "/ws", **options: Any) -> Any:
    from websockets.sync.client import connect

    options = {"max_size": None, "open_timeout": 30, "close_timeout": 5, **options}
    return connect(f"{url.replace('http', 'ws', 1)}{path}", **options)


def address(url: str) -> tuple[str, int]:
    return urlsplit(url).hostname or "", urlsplit(url).port or 0


def handshake(url: str, **headers: str) -> bytes:
    lines = {
        "Host": urlsplit(url).netloc,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
    }
    lines |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", **headers}
    return ("GET /ws HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode("ascii")


def ask(link: Any, message: Any) -> dict[str, Any]:
    """The answer to one message; a text is sent as it is."""
    link.send(message if isinstance(message, (str, bytes)) else json.dumps(message))
    answer = json.loads(link.recv(timeout=30))
    assert isinstance(answer, dict)
    return answer


def reset(**data: Any) -> dict[str, Any]:
    return {"type": "reset", "data": data}


def plays(url: str) -> bool:
    """Whether a newcomer can play."""
    with connected(url) as link:
        return [ask(link, reset(seed=0))["type"], ask(link, {"type": "step", "data": {"action": "up"}})["type"]] == [
            "observation",
            "observation",
        ]
