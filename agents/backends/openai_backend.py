"""Any OpenAI-compatible server as a backend: token ids in, token ids out, through ``/completions``.

The prompt travels as ids, and a server that is asked to gives the sampled ids back (vLLM and those that followed it), so
nothing is encoded twice. From a server that gives text only the text is encoded here: such answers can be acted on, but
they carry no token record, and that is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import GenerationError, Job, Sampled, Sampling
from creditflow.agents.backends.engine import Request, check_sampling, dealt, requests_of
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.wikisearch.retrieval.base import RetrievalError

__all__ = ["JsonPoster", "OpenAIBackend"]

# beside what every server knows: no truncation or penalty of the server's own (a model folder may ask for some), and ids
WHOLE: Final = {
    "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
    "return_token_ids": True, "return_tokens_as_token_ids": True,
}  # fmt: skip
MOST: Final = 5  # alternatives that servers give
_log = logging.getLogger(__name__)


class JsonPoster(Protocol):
    """What is needed of a client; see ``JsonClient``."""

    def post(self, path: str, body: Any) -> Any:
        """The JSON answer to a JSON body."""
        ...


class OpenAIBackend:
    """Samples from a served model. The server draws; no request has a seed, which kills some engines.

    Args:
        client: posts to the server's base URL (".../v1").
        model: its name there.
        close: encodes an answer's text, its end token included; for servers that give no ids.
        version: names the weights in logs.
        context: longest sequence that the server takes; 0 if it does not say.
        workers: HTTP requests at a time.
        batch: prompts of one HTTP request.

    Raises:
        ConfigError: no worker, or no prompt.
    """

    def __init__(
        self,
        client: JsonPoster,
        model: str,
        close: Callable[[str], NDArray[np.int32]],
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
        self._client, self._model, self._close = client, model, close
        self._workers, self._batch = workers, batch
        self._said: set[str] = set()
        self._scaled: dict[float, bool] = {0.0: True, 1.0: True}

    def generate(self, jobs: Sequence[Job], sampling: Sampling, end_ids: frozenset[int]) -> list[Sampled]:
        """One answer per job; equal prompts are asked once, with ``n``.

        Raises:
            ConfigError: a way of sampling whose log-probabilities a server does not report.
            GenerationError: the server is dead or slow, or what it says is not what was asked for.
        """
        check_sampling(sampling, "an OpenAI-compatible server")
        if not jobs:
            return []
        requests = requests_of(jobs)
        if sampling.temperature not in self._scaled:
            self._scaled[sampling.temperature] = self._reports_at(sampling.temperature, requests[0])
        requests.sort(key=lambda one: len(one.places))  # one HTTP request has one n
        batches = [
            group[start : start + self._batch]
            for _, members in groupby(requests, key=lambda one: len(one.places))
            for group in [list(members)]
            for start in range(0, len(group), self._batch)
        ]
        with ThreadPoolExecutor(self._workers) as pool:
            answers = [one for found in pool.map(lambda b: self._ask(b, sampling, end_ids), batches) for one in found]
        return dealt(requests, answers, jobs)

    def _body(self, prompts: Sequence[NDArray[np.int32]], n: int, temperature: float, tokens: int) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": [ids.tolist() for ids in prompts],
            "n": n,
            "max_tokens": tokens,
            "temperature": temperature,
            "top_p": 1.0,
            "logprobs": 1,
            **WHOLE,
        }

    def _post(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The choices, in their order."""
        try:
            answer = self._client.post("/completions", body)
        except RetrievalError as error:
            raise GenerationError(f"model {self._model!r}: {error}") from error
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not all(isinstance(one, dict) for one in choices):
            raise GenerationError(f"expected a completion with a list of choices, got {short_repr(answer, 120)}")
        order, wanted = [one.get("index") for one in choices], body["n"] * len(body["prompt"])
        if sorted(map(str, order)) != sorted(map(str, range(wanted))):
            raise GenerationError(f"expected choices 0 to {wanted - 1}, one an answer; got indices {order}"[:300])
        return sorted(choices, key=lambda one: int(one["index"]))

    def _ask(self, batch: Sequence[Request], sampling: Sampling, end_ids: frozenset[int]) -> list[list[Sampled]]:
        n = len(batch[0].places)
        body = self._body([one.ids for one in batch], n, sampling.temperature, sampling.max_new_tokens)
        choices = self._post(body | {"stop_token_ids": sorted(end_ids)})
        found = [choices[start : start + n] for start in range(0, len(choices), n)]
        for prompt, mine in zip(body["prompt"], found, strict=True):
            if any(one.get("prompt_token_ids") not in (None, prompt) for one in mine):
                raise GenerationError("the server continued another prompt than it was given: it adds or drops tokens")
        return [[self._read(choice, sampling) for choice in mine] for mine in found]

    def _read(self, choice: dict[str, Any], sampling: Sampling) -> Sampled:
        scores = choice.get("logprobs")
        scores = scores if isinstance(scores, dict) else {}
        ids = choice.get("token_ids")
        if ids is None:
            ids = _ids_in(scores.get("tokens"))
        if ids is None:
            return self._from_text(choice)
        logprobs = scores.get("token_logprobs")
        if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < 2**31 for i in ids):
            raise GenerationError(f"expected token ids as whole numbers, got {str(ids)[:80]}")
        if not 1 <= len(ids) <= sampling.max_new_tokens:
            raise GenerationError(f"expected 1 to {sampling.max_new_tokens} tokens, got {len(ids)}")
        if not isinstance(logprobs, list) or len(logprobs) != len(ids):
            raise GenerationError(f"expected {len(ids)} log-probabilities, one a token; got {str(logprobs)[:80]}")
        if not all(map(_is_logprob, logprobs)):
            raise GenerationError(f"a log-probability must be a finite number ≤ 0, got {str(logprobs)[:80]}")
        return Sampled(
            np.array(ids, np.int32), np.array(logprobs, np.float32), exact=self._scaled[sampling.temperature]
        )

    def _from_text(self, choice: dict[str, Any]) -> Sampled:
        text = choice.get("text")
        if not isinstance(text, str):
            raise GenerationError(f"expected token ids or a text in every choice, got {short_repr(choice, 120)}")
        self._say(
            "the server gives no token ids: its texts are encoded here, and the episodes carry no tokens or "
            "log-probabilities (nothing to train on). vLLM from 0.10.2 on gives ids"
        )
        ids = self._close(text)
        if choice.get("finish_reason") == "length" and len(ids) > 1:
            ids = ids[:-1]
        return Sampled(ids, np.full(len(ids), np.nan, np.float32), exact=False)

    def _reports_at(self, temperature: float, request: Request) -> bool:
        """Whether log-probabilities are those at the temperature: if so, gaps between tokens are divided by it.

        Two answers of a server are never quite the same (coarse numbers, cached prefixes), so the gap must be much
        nearer to the divided one than to the plain one.
        """
        rows = []
        for one in (1.0, temperature):
            [choice] = self._post(self._body([request.ids], 1, one, 1) | {"logprobs": MOST})
            rows.append(_best_tokens(choice))
        common = sorted(set(rows[0]) & set(rows[1]), key=lambda token: rows[0][token])
        follows = False
        if len(common) > 1:
            plain, warm = (row[common[-1]] - row[common[0]] for row in rows)
            follows = 4.0 * abs(warm - plain / temperature) < abs(plain - plain / temperature)
        if not follows:
            self._say(
                f"the server's log-probabilities are not seen to be those at temperature {temperature:g}: the episodes "
                "carry no tokens or log-probabilities. vLLM: serve with --logprobs-mode processed_logprobs"
            )
        return follows

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            _log.warning("%s: %s", self._model, text)


def _best_tokens(choice: dict[str, Any]) -> dict[str, float]:
    """The first token's alternatives and their log-probabilities; {} if the server does not say them."""
    scores = choice.get("logprobs")
    rows = scores.get("top_logprobs") if isinstance(scores, dict) else None
    row = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(row, dict) or not all(map(_is_logprob, row.values())):
        return {}
    return {str(token): float(value) for token, value in row.items()}


def _is_logprob(value: Any) -> bool:
    """Whether it is a number from far below to 0; not of a size that no float holds."""
    return isinstance(value, float | int) and -1e30 < value < 1e-3


def _ids_in(tokens: Any) -> list[int] | None:
    """Ids out of tokens that are written as "token_id:17"; None if they are not."""
    mark = "token_id:"
    if not isinstance(tokens, list) or not tokens:
        return None
    if not all(isinstance(one, str) and one.startswith(mark) and one[len(mark) :].isdecimal() for one in tokens):
        return None
    return [int(one[len(mark) :]) for one in tokens]
