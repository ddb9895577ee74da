"""The ``vllm`` backend: a paged key-value cache, continuous batching, and prefixes cached from turn to turn.

Completions are sampled by the engine, which is seeded per call from the requests' uniforms: equal calls give equal
completions, but an episode's completions also depend on the other requests in its batch (with the ``transformers`` backend
they do not).
"""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.backends.engine import call_seed, check_sampling, deduplicate_prompts, in_request_order
from creditflow.agents.backends.vllm.engine import VllmEngine

__all__ = ["VllmBackend"]


class VllmBackend:
    """Samples from a vLLM engine.

    Args:
        engine: a ``VllmEngine``.
        version: names the weights in logs.

    Attributes:
        context: maximum sequence length of the model.
    """

    def __init__(self, engine: VllmEngine, *, version: str = "0") -> None:
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
