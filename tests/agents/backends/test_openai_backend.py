"""The ``openai:`` backend: ids in, ids out; a malformed response is an error, and nothing is guessed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.servers.openai_server import openai_server, toy, toy_ids

from creditflow.agents.backends.base import Completion, GenerationError, GenerationRequest, Sampling
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.envs.errors import ConfigError
from creditflow.envs.http.client import JsonClient

ENDS = frozenset({1, 2})
PLAIN = Sampling(max_new_tokens=8)


def close(text: str) -> Any:
    """An encoder of the toy's texts: "<12><30>" and an end token."""
    return np.array([*map(int, text.replace("<", "").split(">")[:-1]), 1], np.int32)


def backend_at(url: str, **options: Any) -> OpenAIBackend:
    client = JsonClient([url], timeout=options.pop("timeout", 30.0), max_attempts=options.pop("max_attempts", 1), backoff=0.0,
                        max_bytes=options.pop("max_bytes", 2**20))  # fmt: skip
    return OpenAIBackend(client, "toy", close, **options)


def jobs_of(*prompts: list[int]) -> list[GenerationRequest]:
    return [GenerationRequest(i, np.array(ids, np.int32), np.full(8, 0.5)) for i, ids in enumerate(prompts)]


def ask(complete: Callable[[dict[str, Any]], Any], *prompts: list[int], sampling: Sampling = PLAIN) -> list[Completion]:
    with openai_server(complete) as served:
        return backend_at(served.url).generate(jobs_of(*(prompts or ([3, 4],))), sampling, ENDS)


def changed(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    """A well-formed completion with some fields of every choice replaced."""

    def complete(body: dict[str, Any]) -> dict[str, Any]:
        return {"choices": [one | changes for one in toy(body)["choices"]]}

    return complete


def test_every_request_gets_the_completion_of_its_own_prompt() -> None:
    prompts = [[3, i] for i in range(9)]
    answers = ask(toy, *prompts)
    assert [one.ids.tolist() for one in answers] == [toy_ids(prompt, 0, 8) for prompt in prompts]
    assert all(one.exact and one.logprobs.dtype == np.float32 and np.all(one.logprobs == -0.5) for one in answers)


def test_equal_prompts_are_sent_once_with_n() -> None:
    prompts = [[3, 7], [3, 8], [3, 7], [3, 9], [3, 7]]
    with openai_server() as served:
        answers = backend_at(served.url).generate(jobs_of(*prompts), PLAIN, ENDS)
    assert sorted((body["n"], sorted(body["prompt"])) for body in served.bodies) == [
        (1, [[3, 8], [3, 9]]),
        (3, [[3, 7]]),
    ]
    assert [one.ids.tolist()[1] for one in answers] == [30, 30, 31, 30, 32]


def test_prompts_are_sent_in_batches() -> None:
    prompts = [[3, i] for i in range(10)]
    with openai_server() as served:
        backend_at(served.url, batch=4).generate(jobs_of(*prompts), PLAIN, ENDS)
    assert sorted(len(body["prompt"]) for body in served.bodies) == [2, 4, 4]


def test_the_request_asks_for_ids_and_for_the_whole_distribution_and_has_no_seed() -> None:
    with openai_server() as served:
        backend_at(served.url).generate(jobs_of([3, 4]), Sampling(max_new_tokens=8, temperature=0.0), ENDS)
    [body] = served.bodies
    assert body["return_token_ids"] is body["return_tokens_as_token_ids"] is True
    assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, -1, 0.0, 1.0)
    assert (body["temperature"], body["max_tokens"], body["stop_token_ids"]) == (0.0, 8, [1, 2])
    assert "seed" not in body


def test_ids_written_as_tokens_are_ids() -> None:
    [answer] = ask(changed(token_ids=None))
    assert answer.exact
    assert answer.ids.tolist() == toy_ids([3, 4], 0, 8)


def test_without_ids_the_text_is_encoded_marked_inexact_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    bare = changed(token_ids=None, logprobs={"tokens": ["a", "b"], "token_logprobs": [-1.0, -1.0]})
    with openai_server(bare) as served, caplog.at_level(logging.WARNING):
        backend = backend_at(served.url)
        for _ in range(2):
            [answer] = backend.generate(jobs_of([3, 4]), PLAIN, ENDS)
    assert not answer.exact
    assert answer.ids.tolist() == [14, 30, 1]
    assert np.isnan(answer.logprobs).all()
    assert [record.message.count("no token ids") for record in caplog.records] == [1]


def test_a_text_that_was_cut_gets_no_end_token() -> None:
    [answer] = ask(changed(token_ids=None, logprobs=None, finish_reason="length"))
    assert answer.ids.tolist() == [14, 30]


def test_log_probabilities_before_the_temperature_make_no_token_record(caplog: pytest.LogCaptureFixture) -> None:
    def raw(body: dict[str, Any]) -> Any:
        return toy(body | {"temperature": 1.0})

    warm = Sampling(max_new_tokens=8, temperature=0.7)
    with caplog.at_level(logging.WARNING):
        assert not ask(raw, sampling=warm)[0].exact
    assert "processed_logprobs" in caplog.text

    def noisy(body: dict[str, Any]) -> Any:
        return _shifted(raw(body), 2e-3 * (body["temperature"] < 1.0))

    assert not ask(noisy, sampling=warm)[0].exact
    assert ask(raw, sampling=Sampling(max_new_tokens=8))[0].exact
    assert ask(toy, sampling=warm)[0].exact


def _shifted(answer: dict[str, Any], by: float) -> dict[str, Any]:
    """The answer of a server whose numbers are a little off, each by another amount."""
    for choice in answer["choices"]:
        for row in choice["logprobs"]["top_logprobs"]:
            row.update({token: value - i * by for i, (token, value) in enumerate(row.items())})
    return answer


@pytest.mark.parametrize("rows", [None, [], [None], [{"token_id:7": "x"}], [{"token_id:7": -(10**99)}], {"a": 1}])
def test_alternatives_that_are_no_numbers_make_no_token_record(rows: Any) -> None:
    def odd(body: dict[str, Any]) -> Any:
        answer = toy(body)
        answer["choices"][0]["logprobs"]["top_logprobs"] = rows
        return answer

    assert not ask(odd, sampling=Sampling(max_new_tokens=8, temperature=0.7))[0].exact


def _with_first_choice(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    def complete(body: dict[str, Any]) -> Any:
        answer = toy(body)
        changed_ = change(answer["choices"][0])
        return answer if changed_ is None else changed_

    return complete


MALFORMED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no choices": (lambda _: {"object": "x"}, "list of choices"),
    "no object": (lambda _: [1], "list of choices"),
    "an error instead": (lambda _: {"error": {"message": "no"}}, "list of choices"),
    "too many": (lambda one: {"choices": [one, one | {"index": 1}]}, "choices 0 to 0"),
    "none": (lambda _: {"choices": []}, "choices 0 to 0"),
    "the same twice": (lambda one: {"choices": [one, one]}, "choices 0 to 0"),
    "NaN": (lambda one: one["logprobs"].update(token_logprobs=[float("nan")] * 3), "NaN is not a JSON number"),
    "infinity": (lambda one: one["logprobs"].update(token_logprobs=[-0.1, float("-inf"), -0.1]), "not a JSON number"),
    "a huge number": (lambda one: one["logprobs"].update(token_logprobs=[-(10**400)] * 3), "more than 100 digits"),
    "a probability above one": (lambda one: one["logprobs"].update(token_logprobs=[0.7] * 3), "finite number"),
    "a missing logprob": (lambda one: one["logprobs"].update(token_logprobs=[-0.1, -0.1]), "3 log-probabilities"),
    "a null logprob": (lambda one: one["logprobs"].update(token_logprobs=[None, -0.1, -0.1]), "finite number"),
    "no logprobs": (lambda one: one.update(logprobs=None), "3 log-probabilities"),
    "ids that are none": (lambda one: one.update(token_ids=["a", 1, 2]), "whole numbers"),
    "a negative id": (lambda one: one.update(token_ids=[-4, 1, 2]), "whole numbers"),
    "no token": (lambda one: one.update(token_ids=[]), "1 to 8 tokens"),
    "too many tokens": (lambda one: one.update(token_ids=[5] * 9), "1 to 8 tokens"),
    "neither ids nor text": (lambda one: one.update(token_ids=None, logprobs=None, text=None), "token ids or a text"),
    "another prompt": (lambda one: one.update(prompt_token_ids=[0, 3, 4]), "another prompt"),
}


@pytest.mark.parametrize(("change", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_response_is_an_error_that_names_what_was_expected(change: Any, message: str) -> None:
    with pytest.raises(GenerationError, match=message):
        ask(_with_first_choice(change))


def test_a_wrong_count_for_n_is_an_error() -> None:
    def short(body: dict[str, Any]) -> Any:
        return toy(body | {"n": 1})

    with pytest.raises(GenerationError, match="choices 0 to 2"):
        ask(short, [3, 4], [3, 4], [3, 4])


def test_settings_that_a_server_reports_wrongly_are_rejected() -> None:
    for sampling in (Sampling(top_p=0.9), Sampling(top_k=5), Sampling(entropies=2)):
        with pytest.raises(ConfigError, match="transformers backend"):
            ask(toy, sampling=sampling)


def test_no_requests_send_nothing() -> None:
    with openai_server() as served:
        assert backend_at(served.url).generate([], PLAIN, ENDS) == []
    assert not served.bodies
