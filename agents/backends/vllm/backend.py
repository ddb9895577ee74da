"""The ``vllm`` backend: a paged key-value cache, continuous batching, and prefixes that are kept from turn to turn.

Answers are drawn by the engine, seeded per call from the jobs' draws: the same call gives the same answers, but an
episode's answers also depend on who shares its batch (with the ``transformers`` backend they do not).
"""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.agents.backends.base import Job, Sampled, Sampling
from creditflow.agents.backends.engine import Engine, check_sampling, dealt, requests_of, seed_of

__all__ = ["VllmBackend"]


class VllmBackend:
    """Samples from an engine.

    Args:
        engine: a ``VllmEngine``.
        version: names the weights in logs.

    Attributes:
        context: longest sequence that the model can take.
    """

    def __init__(self, engine: Engine, *, version: str = "0") -> None:
        self.engine, self.version, self.context = engine, version, engine.context

    def generate(self, jobs: Sequence[Job], sampling: Sampling, end_ids: frozenset[int]) -> list[Sampled]:
        """One answer per job; equal prompts are asked once.

        Raises:
            ConfigError: a way of sampling whose log-probabilities vLLM does not report.
            GenerationError: the engine failed.
        """
        check_sampling(sampling, "vLLM")
        if not jobs:
            return []
        requests = requests_of(jobs)
        return dealt(requests, self.engine.complete(requests, sampling, end_ids, seed_of(jobs)), jobs)
