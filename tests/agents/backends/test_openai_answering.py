"""The ``openai:`` backend asked request by request: a bounded number in flight, failures alone, nothing left behind."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from helpers.servers.openai_server import openai_server, toy, toy_ids

from creditflow.agents.backends.base import GenerationError, GenerationRequest, Sampling
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.envs.errors import ConfigError
from creditflow.envs.http.client import JsonClient

ENDS = frozenset({1, 2})
PLAIN = Sampling(max_new_tokens=8)


def backend_at(url: str, *, timeout: float = 30.0, max_attempts: int = 1, **options: Any) -> OpenAIBackend:
    client = JsonClient([url], timeout=timeout, max_attempts=max_attempts, backoff=0.0)
    return OpenAIBackend(client, "toy", lambda _text: np.zeros(1, np.int32), **options)


def jobs_of(*prompts: list[int]) -> list[GenerationRequest]:
    return [GenerationRequest(i, np.array(ids, np.int32), np.full(8, 0.5)) for i, ids in enumerate(prompts)]


def test_requests_are_answered_one_by_one_with_a_bounded_number_in_flight() -> None:
    lock, together = threading.Lock(), threading.Barrier(4)
    running, most = 0, 0

    def complete(body: dict[str, Any]) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(30)  # breaks unless four requests are in flight
        with lock:
            running -= 1
        return toy(body)

    prompts = [[3, i] for i in range(12)]
    with openai_server(complete) as served:
        backend = backend_at(served.url, workers=2, batch=2)
        with backend.answering(PLAIN, ENDS) as submit:
            answers = [future.result(60) for future in [submit(job) for job in jobs_of(*prompts)]]
        assert all(len(body["prompt"]) == body["n"] == 1 for body in served.bodies)
    assert most == 4
    assert [one.ids.tolist() for one in answers] == [toy_ids(prompt, 0, 8) for prompt in prompts]


def test_a_request_that_fails_fails_alone() -> None:
    with (
        openai_server(lambda body: 400 if body["prompt"] == [[3, 5]] else toy(body)) as served,
        backend_at(served.url).answering(PLAIN, ENDS) as submit,
    ):
        futures = [submit(job) for job in jobs_of([3, 4], [3, 5], [3, 6])]
        with pytest.raises(GenerationError, match="400"):
            futures[1].result(60)
        assert [futures[i].result(60).ids.tolist() for i in (0, 2)] == [toy_ids([3, i], 0, 8) for i in (4, 6)]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("creditflow")]


def test_what_waits_at_the_end_of_the_block_is_not_sent() -> None:
    reached, free = threading.Event(), threading.Event()

    def complete(body: dict[str, Any]) -> Any:
        reached.set()
        assert free.wait(60)
        return toy(body)

    with openai_server(complete) as served:
        with backend_at(served.url, workers=1, batch=1).answering(PLAIN, ENDS) as submit:
            first, second = (submit(job) for job in jobs_of([3, 4], [3, 5]))
            assert reached.wait(60)
            second.add_done_callback(lambda _: free.set())  # the first is in flight until the second is dropped
        assert second.cancelled()
        assert first.result(0).ids.tolist() == toy_ids([3, 4], 0, 8)
        assert len(served.bodies) == 1


def test_at_another_temperature_the_server_is_asked_once_what_its_log_probabilities_are() -> None:
    warm = Sampling(max_new_tokens=8, temperature=0.7)
    with openai_server() as served, backend_at(served.url).answering(warm, ENDS) as submit:
        answers = [submit(job).result(60) for job in jobs_of([3, 4], [3, 5])]
    assert [one.ids.tolist() for one in answers] == [toy_ids([3, i], 0, 8) for i in (4, 5)]
    assert all(one.exact for one in answers)
    assert sorted(body["max_tokens"] for body in served.bodies) == [1, 1, 8, 8]


def test_an_error_does_not_wait_for_a_server_that_hangs() -> None:
    reached, free = threading.Event(), threading.Event()

    def complete(body: dict[str, Any]) -> Any:
        if body["prompt"] == [[3, 5]]:
            reached.set()
            free.wait(600)
        return toy(body)

    class InjectedError(Exception):
        """Injected."""

    with openai_server(complete) as served:
        backend = backend_at(served.url, timeout=600.0, max_attempts=3)
        with pytest.raises(InjectedError), backend.answering(PLAIN, ENDS) as submit:
            hanging = submit(jobs_of([3, 5])[0])
            assert reached.wait(60)
            raise InjectedError
        with pytest.raises(GenerationError, match="aborted"):
            hanging.result(0)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("creditflow")]
        with backend.answering(PLAIN, ENDS) as submit:  # later requests are served
            assert submit(jobs_of([3, 4])[0]).result(60).ids.tolist() == toy_ids([3, 4], 0, 8)
        free.set()


def test_sampling_is_checked_before_anything_is_sent() -> None:
    with (
        openai_server() as served,
        pytest.raises(ConfigError, match="entropies"),
        backend_at(served.url).answering(Sampling(entropies=2), ENDS),
    ):
        pass
    assert not served.bodies
