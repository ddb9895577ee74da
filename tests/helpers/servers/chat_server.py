"""A chat-completions server on the loopback address, whose model is a function of the messages. No torch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

__all__ = ["Model", "chat_server", "json_server", "random_player"]

Model = Callable[[list[dict[str, Any]]], str]


def random_player(seed: int) -> Model:
    """A model that takes one of the actions listed in the last message, in the format of "think-v1"; every fifth time nonsense."""
    rng, lock = np.random.default_rng(seed), threading.Lock()

    def answer(messages: list[dict[str, Any]]) -> str:
        assert messages[-1]["role"] == "user"
        listed = str(messages[-1]["content"]).rsplit("Possible actions:\n", 1)[1].split("\n\n")[0].split("\n")
        with lock:
            nonsense, action = rng.random() < 0.2, listed[int(rng.integers(len(listed)))]
        return "I do not know." if nonsense else f"<think>Perhaps.</think><action>{action}</action>"

    return answer


@contextmanager
def chat_server(model: Model) -> Iterator[str]:
    """Serves ``/chat/completions`` until the block ends; yields the base URL."""

    def answer(_path: str, body: dict[str, Any]) -> Any:
        text = model(body["messages"])
        shown = sum(len(str(message["content"]).split()) for message in body["messages"])
        return {
            "id": "chat-1", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": shown, "completion_tokens": 1, "total_tokens": shown + 1},
        }  # fmt: skip

    with json_server(answer) as url:
        yield f"{url}/v1"


@contextmanager
def json_server(answer: Callable[[str, dict[str, Any]], Any]) -> Iterator[str]:
    """Serves JSON until the block ends: ``answer`` maps path and body of a POST to the response."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": "toy", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(answer(self.path, body))

        def _send(self, reply: Any) -> None:
            data = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

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
