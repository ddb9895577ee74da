"""The ``vllm`` backend: a paged key-value cache, continuous batching, and prefixes cached from turn to turn.

Completions are sampled by the engine. The one in this process is seeded per call from the requests' uniforms: equal calls
give equal completions, but an episode's completions also depend on the other requests in its batch (with the
``transformers`` backend they do not). The asynchronous one has a random stream of its own, so that they depend on timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from creditflow.agents.backends.base import AnsweringBackend, Completion, GenerationRequest, Sampling, Submit
from creditflow.agents.backends.engine import Engine, call_seed, check_sampling, deduplicate_prompts, in_request_order

__all__ = ["VllmBackend"]


class VllmBackend:
    """Samples from a vLLM engine.

    Args:
        engine: a ``VllmEngine``, or a ``VllmAsyncEngine``, which also answers requests one by one.
        version: names the weights in logs.

    Attributes:
        context: maximum sequence length of the model.
    """

    def __init__(self, engine: Engine, *, version: str = "0") -> None:
        self.engine, self.version, self.context = engine, version, engine.context

    def generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        """Generate one completion per request; equal prompts are sent once.

        Raises:
            ConfigError: settings under which vLLM does not report the right log-probabilities.
            GenerationError: the engine failed.
        """
        check_sampling(sampling, "vLLM")
        if not requests:
            return []
        prompts = deduplicate_prompts(requests)
        return in_request_order(
            prompts, self.engine.complete(prompts, sampling, end_ids, call_seed(requests)), requests
        )

    @contextmanager
    def answering(self, sampling: Sampling, end_ids: frozenset[int]) -> Iterator[Submit | None]:
        """A function that starts one request, see ``AnsweringBackend``; None if the engine only takes batches.

        Raises:
            ConfigError: settings under which vLLM does not report the right log-probabilities.
        """
        check_sampling(sampling, "vLLM")
        if not isinstance(self.engine, AnsweringBackend):
            yield None
            return
        with self.engine.answering(sampling, end_ids) as submit:
            yield submit
