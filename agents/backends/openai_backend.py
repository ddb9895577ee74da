"""Any OpenAI-compatible server as a backend: token ids in, token ids out, through ``/completions``.

The prompt is sent as ids, and servers that support it return the sampled ids (vLLM and compatible ones), so
nothing is encoded twice. If the server returns text only, the text is encoded here: their actions can be executed, but
they have no token record, and one warning is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Completion, GenerationError, GenerationRequest, Sampling
from creditflow.agents.backends.engine import UniquePrompt, check_sampling, deduplicate_prompts, in_request_order
from creditflow.envs.errors import ConfigError, ServiceError, short_repr

__all__ = ["JsonPoster", "OpenAIBackend"]

# beyond the standard fields: no truncation or penalty of the server's own (a model folder may set some), and token ids
FULL_DISTRIBUTION: Final = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,
}
MAX_ALTERNATIVES: Final = 5  # top log-probabilities a position; the limit of most servers
_log = logging.getLogger(__name__)


class JsonPoster(Protocol):
    """The part of ``JsonClient`` that a backend needs."""

    def post(self, path: str, body: Any) -> Any:
        """Post a JSON body; returns the JSON response."""
        ...

    def abort(self) -> None:
        """End what is under way in other threads: it fails without another attempt."""
        ...


class OpenAIBackend:
    """Samples from a served model. The server samples; requests carry no seed, because seeded requests crash some engines.

    Args:
        client: posts to the server's base URL (".../v1").
        model: the model's name on the server.
        encode_completion: encodes a completion's text, its end token included; for servers that return no ids.
        version: names the weights in logs.
        context: maximum sequence length of the server; 0 if unknown.
        workers: number of concurrent HTTP requests.
        batch: number of prompts in one HTTP request.

    Raises:
        ConfigError: ``workers`` or ``batch`` is less than 1.
    """

    def __init__(
        self,
        client: JsonPoster,
        model: str,
        encode_completion: Callable[[str], NDArray[np.int32]],
        *,
        version: str = "",
        context: int = 0,
        workers: int = 8,
        batch: int = 16,
    ) -> None:
        if min(workers, batch) < 1:
            raise ConfigError(
                f"a served model needs at least one worker and one prompt, got {short_repr(workers)} and {short_repr(batch)}"
            )
        self.version, self.context = version or model, context
        self._client, self._model, self._encode_completion = client, model, encode_completion
        self._workers, self._batch = workers, batch
        self._warnings: set[str] = set()
        self._logprobs_are_exact: dict[float, bool] = {0.0: True, 1.0: True}  # by temperature

    def generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        """Generate one completion per request; equal prompts are sent once, with ``n``.

        Raises:
            ConfigError: settings under which a server does not report the right log-probabilities; a prompt with pictures.
            GenerationError: the server failed or timed out, or its response is malformed.
        """
        check_sampling(sampling, "an OpenAI-compatible server")
        if not requests:
            return []
        prompts = deduplicate_prompts(requests)
        self._check_logprobs(sampling.temperature, prompts[0])
        prompts.sort(key=lambda prompt: len(prompt.places))  # one HTTP request has one n
        http_requests = [
            group[start : start + self._batch]
            for _, members in groupby(prompts, key=lambda prompt: len(prompt.places))
            for group in [list(members)]
            for start in range(0, len(group), self._batch)
        ]
        with ThreadPoolExecutor(self._workers, thread_name_prefix="creditflow-request") as pool:
            responses = pool.map(lambda batch: self._complete(batch, sampling, end_ids), http_requests)
            try:
                completions = [of_prompt for response in responses for of_prompt in response]
            except BaseException:  # Ctrl-C too does not wait for a server that hangs
                pool.shutdown(wait=False, cancel_futures=True)
                self._client.abort()
                raise
        return in_request_order(prompts, completions, requests)

    def _check_logprobs(self, temperature: float, prompt: UniquePrompt) -> None:
        """Find out, once, whether log-probabilities are those at the temperature."""
        if temperature not in self._logprobs_are_exact:
            self._logprobs_are_exact[temperature] = self._reports_logprobs_at(temperature, prompt)

    def _body(self, prompts: Sequence[NDArray[np.int32]], n: int, temperature: float, tokens: int) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": [ids.tolist() for ids in prompts],
            "n": n,
            "max_tokens": tokens,
            "temperature": temperature,
            "top_p": 1.0,
            "logprobs": 1,
            **FULL_DISTRIBUTION,
        }

    def _post(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Post a body; returns the choices in the order of their indices."""
        try:
            response = self._client.post("/completions", body)
        except ServiceError as error:
            raise GenerationError(f"model {self._model!r}: {error}") from error
        choices = response.get("choices") if isinstance(response, dict) else None
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise GenerationError(f"expected a completion with a list of choices, got {short_repr(response, 120)}")
        indices, expected = [choice.get("index") for choice in choices], body["n"] * len(body["prompt"])
        if sorted(map(str, indices)) != sorted(map(str, range(expected))):
            raise GenerationError(
                f"expected choices 0 to {expected - 1}, one for each completion; got indices {indices}"[:300]
            )
        return sorted(choices, key=lambda choice: int(choice["index"]))

    def _complete(
        self, batch: Sequence[UniquePrompt], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[list[Completion]]:
        """The completions of every prompt, by one HTTP request."""
        n = len(batch[0].places)
        body = self._body([prompt.ids for prompt in batch], n, sampling.temperature, sampling.max_new_tokens)
        choices = self._post(body | {"stop_token_ids": sorted(end_ids)})
        by_prompt = [choices[start : start + n] for start in range(0, len(choices), n)]
        for prompt_ids, of_prompt in zip(body["prompt"], by_prompt, strict=True):
            if any(choice.get("prompt_token_ids") not in (None, prompt_ids) for choice in of_prompt):
                raise GenerationError("the server continued another prompt than it was given: it adds or drops tokens")
        completions = [self._completion(choice, sampling) for choice in choices]
        return [completions[start : start + n] for start in range(0, len(choices), n)]

    def _completion(self, choice: dict[str, Any], sampling: Sampling) -> Completion:
        fields = _logprob_fields(choice)
        ids = choice.get("token_ids")
        if ids is None:
            ids = _ids_in(fields.get("tokens"))
        if ids is None:
            return self._from_text(choice)
        logprobs = fields.get("token_logprobs")
        if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < 2**31 for i in ids):
            raise GenerationError(f"expected token ids as whole numbers, got {str(ids)[:80]}")
        if not 1 <= len(ids) <= sampling.max_new_tokens:
            raise GenerationError(f"expected 1 to {sampling.max_new_tokens} tokens, got {len(ids)}")
        if not isinstance(logprobs, list) or len(logprobs) != len(ids):
            raise GenerationError(
                f"expected {len(ids)} log-probabilities, one for each token; got {str(logprobs)[:80]}"
            )
        if not all(map(_is_logprob, logprobs)):
            raise GenerationError(f"a log-probability must be a finite number ≤ 0, got {str(logprobs)[:80]}")
        return Completion(
            np.array(ids, np.int32),
            np.array(logprobs, np.float32),
            exact=self._logprobs_are_exact[sampling.temperature],
        )

    def _from_text(self, choice: dict[str, Any]) -> Completion:
        text = choice.get("text")
        if not isinstance(text, str):
            raise GenerationError(f"expected token ids or a text in every choice, got {short_repr(choice, 120)}")
        self._warn_once(
            "the server returns no token ids: its texts are encoded here, and the episodes carry no tokens or "
            "log-probabilities (nothing to train on). vLLM from 0.10.2 on returns ids"
        )
        ids = self._encode_completion(text)
        if choice.get("finish_reason") == "length" and len(ids) > 1:
            ids = ids[:-1]
        return Completion(ids, np.full(len(ids), np.nan, np.float32), exact=False)

    def _reports_logprobs_at(self, temperature: float, prompt: UniquePrompt) -> bool:
        """Whether log-probabilities are those at the temperature: then differences between tokens are divided by it.

        Two responses of a server are never quite the same (coarse numbers, cached prefixes), so the difference must be
        much nearer to the scaled one than to the one at temperature 1.
        """
        rows = []
        for each in (1.0, temperature):
            [choice] = self._post(self._body([prompt.ids], 1, each, 1) | {"logprobs": MAX_ALTERNATIVES})
            rows.append(_best_tokens(choice))
        common = sorted(set(rows[0]) & set(rows[1]), key=lambda token: rows[0][token])
        scaled = False
        if len(common) > 1:
            at_one, at_temperature = (row[common[-1]] - row[common[0]] for row in rows)
            expected = at_one / temperature
            scaled = 4.0 * abs(at_temperature - expected) < abs(at_one - expected)
        if not scaled:
            self._warn_once(
                f"the server's log-probabilities do not appear to be those at temperature {temperature:g}: the episodes "
                "carry no tokens or log-probabilities. vLLM: serve with --logprobs-mode processed_logprobs"
            )
        return scaled

    def _warn_once(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.add(text)
            _log.warning("%s: %s", self._model, text)


def _logprob_fields(choice: dict[str, Any]) -> dict[str, Any]:
    """The fields under ``logprobs``; {} if there are none."""
    fields = choice.get("logprobs")
    return fields if isinstance(fields, dict) else {}


def _best_tokens(choice: dict[str, Any]) -> dict[str, float]:
    """The most likely first tokens and their log-probabilities; {} if the server does not report them."""
    rows = _logprob_fields(choice).get("top_logprobs")
    row = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(row, dict) or not all(map(_is_logprob, row.values())):
        return {}
    return {str(token): float(value) for token, value in row.items()}


def _is_logprob(value: Any) -> bool:
    """Whether it is a number ≤ 0 (up to rounding) that a float can hold."""
    return isinstance(value, float | int) and -1e30 < value < 1e-3


def _ids_in(tokens: Any) -> list[int] | None:
    """Ids from tokens written as "token_id:17"; None if they are written otherwise."""
    prefix = "token_id:"
    if not isinstance(tokens, list) or not tokens:
        return None
    if not all(
        isinstance(name, str) and name.startswith(prefix) and name[len(prefix) :].isdecimal() for name in tokens
    ):
        return None
    return [int(name[len(prefix) :]) for name in tokens]
