"""The ``openai:`` backend when something fails: what hangs is aborted, and later requests are served."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from helpers.servers.openai_server import openai_server, toy, toy_ids

from creditflow.agents.backends.base import GenerationError, GenerationRequest, Sampling
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.envs.http.client import JsonClient

ENDS = frozenset({1, 2})
PLAIN = Sampling(max_new_tokens=8)


def jobs_of(*prompts: list[int]) -> list[GenerationRequest]:
    return [GenerationRequest(i, np.array(ids, np.int32), np.full(8, 0.5)) for i, ids in enumerate(prompts)]


def test_an_error_does_not_wait_for_a_server_that_hangs() -> None:
    reached, free = threading.Event(), threading.Event()

    def complete(body: dict[str, Any]) -> Any:
        if body["prompt"] == [[3, 5]]:
            reached.set()
            free.wait(600)
        if body["prompt"] == [[3, 4]] and not free.is_set():
            assert reached.wait(60)
            return 400
        return toy(body)

    with openai_server(complete) as served:
        client = JsonClient([served.url], timeout=600.0, max_attempts=3, backoff=0.0)
        backend = OpenAIBackend(client, "toy", lambda _text: np.zeros(1, np.int32), workers=2, batch=1)
        with pytest.raises(GenerationError, match="400"):
            backend.generate(jobs_of([3, 4], [3, 5]), PLAIN, ENDS)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("creditflow")]
        free.set()
        [answer] = backend.generate(jobs_of([3, 4]), PLAIN, ENDS)  # later requests are served
        assert answer.ids.tolist() == toy_ids([3, 4], 0, 8)
