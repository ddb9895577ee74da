"""What is asked of inference engines with their own batching and sampling, in this process or behind a server.

Engines batch, cache and sample on their own: a completion's randomness comes from the engine, not from its request's
uniforms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Completion, GenerationError, GenerationRequest, Sampling
from creditflow.envs.errors import ConfigError, short_repr

__all__ = [
    "NO_PICTURES",
    "ProbeResult",
    "UniquePrompt",
    "call_seed",
    "check_sampling",
    "deduplicate_prompts",
    "in_request_order",
]

NO_PICTURES: Final = "use generation.backend: transformers (agent hf:PATH), train with --engine verl, or choose a prompt without pictures"
MIN_TEMPERATURE = 0.01  # engines treat anything lower as 0


@dataclass(frozen=True, slots=True)
class UniquePrompt:
    """One prompt, and the requests that have it.

    Attributes:
        ids: int32 (L,).
        places: indices of the requests that get the completions, in order.
    """

    ids: NDArray[np.int32]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Most likely continuation of a probe prompt, with log-probabilities at temperature 1.

    Attributes:
        ids: int32 (n,).
        logprobs: log-probabilities of some tokens at every position, the chosen one among them.
    """

    ids: NDArray[np.int32]
    logprobs: tuple[Mapping[int, float], ...]


def deduplicate_prompts(requests: Sequence[GenerationRequest]) -> list[UniquePrompt]:
    """Merge requests with equal ids, in the order of their first occurrence.

    Raises:
        ConfigError: a request has pictures.
    """
    positions: dict[bytes, list[int]] = {}
    for position, request in enumerate(requests):
        if request.pictures:
            raise ConfigError(
                f"vLLM and OpenAI-compatible servers are sent token ids here, which carry no pictures: {NO_PICTURES}"
            )
        positions.setdefault(np.ascontiguousarray(request.ids, np.int32).tobytes(), []).append(position)
    return [UniquePrompt(requests[equal[0]].ids, tuple(equal)) for equal in positions.values()]


def in_request_order(
    prompts: Sequence[UniquePrompt], completions: Sequence[Sequence[Completion]], requests: Sequence[GenerationRequest]
) -> list[Completion]:
    """Completions in the order of the requests.

    Raises:
        GenerationError: the number of completions is wrong.
    """
    if len(completions) != len(prompts):
        raise GenerationError(f"expected completions of {len(prompts)} prompts, got those of {len(completions)}")
    ordered: dict[int, Completion] = {}
    for prompt, generated in zip(prompts, completions, strict=True):
        if len(generated) != len(prompt.places):
            raise GenerationError(f"expected {len(prompt.places)} completions of a prompt, got {len(generated)}")
        ordered.update(zip(prompt.places, generated, strict=True))
    return [ordered[position] for position in range(len(requests))]


def call_seed(requests: Sequence[GenerationRequest]) -> int:
    """A 63-bit seed for a whole call, from the first uniform of every request: equal calls get equal seeds."""
    first = np.array([request.uniforms[0] for request in requests], np.float64)
    return int.from_bytes(blake2b(first.tobytes(), digest_size=8).digest(), "big") >> 1


def check_sampling(sampling: Sampling, sampler: str) -> None:
    """Reject settings under which an engine does not report the numbers that a token record needs.

    Raises:
        ConfigError: entropies are requested, or a truncated distribution, whose log-probabilities were not tested.
    """
    if sampling.entropies:
        raise ConfigError(f"{sampler} reports no entropies (branching needs them): use the transformers backend")
    if sampling.top_p < 1.0 or sampling.top_k > 0:
        raise ConfigError(
            f"{sampler}'s log-probabilities under truncated sampling were not tested: use top_p=1 and top_k=0, or the "
            f"transformers backend; got {short_repr(sampling.top_p)} and {short_repr(sampling.top_k)}"
        )
    if 0.0 < sampling.temperature < MIN_TEMPERATURE:
        raise ConfigError(
            f"{sampler} samples at temperature 0 or from {MIN_TEMPERATURE} on, got {short_repr(sampling.temperature)}"
        )
