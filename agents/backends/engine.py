"""What an engine that samples by itself must offer, and the bookkeeping shared by those who ask one.

Engines batch, cache and draw on their own: an answer's randomness comes from the engine, not from its job's draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import GenerationError, Job, Sampled, Sampling
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["Engine", "Probed", "Request", "check_sampling", "dealt", "requests_of", "seed_of"]


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and how many answers are wanted to it.

    Attributes:
        ids: int32 (L,).
        places: the jobs that get the answers, in order.
    """

    ids: NDArray[np.int32]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Probed:
    """Most likely continuation of a probe prompt, with log-probabilities at temperature 1.

    Attributes:
        ids: int32 (n,).
        logprobs: per position, of some tokens, the chosen one among them.
    """

    ids: NDArray[np.int32]
    logprobs: tuple[Mapping[int, float], ...]


class Engine(Protocol):
    """An engine in this process.

    Attributes:
        context: longest sequence.
        block_size: tokens of a block of its prefix cache.
        exact: whether it computes in float32.
    """

    context: int
    block_size: int
    exact: bool

    def complete(
        self, requests: Sequence[Request], sampling: Sampling, end_ids: frozenset[int], seed: int
    ) -> list[list[Sampled]]:
        """The answers to every request."""
        ...

    def probe(self, ids: NDArray[np.int32], tokens: int) -> Probed:
        """What the engine makes of a fixed prompt, by the way that answers are made."""
        ...

    def load(self, folder: str) -> int:
        """Take over the weights in a folder; returns how many tensors every worker read."""
        ...

    def forget(self) -> bool:
        """Empty the prefix cache; whether it was emptied."""
        ...

    def sleep(self) -> None:
        """Give memory back."""
        ...

    def wake(self, part: Literal["weights", "kv_cache"]) -> None:
        """Take memory again, in this order."""
        ...


def requests_of(jobs: Sequence[Job]) -> list[Request]:
    """Jobs with the same ids as one request, in the order of their first."""
    places: dict[bytes, list[int]] = {}
    for place, job in enumerate(jobs):
        places.setdefault(np.ascontiguousarray(job.ids, np.int32).tobytes(), []).append(place)
    return [Request(jobs[found[0]].ids, tuple(found)) for found in places.values()]


def dealt(requests: Sequence[Request], answers: Sequence[Sequence[Sampled]], jobs: Sequence[Job]) -> list[Sampled]:
    """Answers in the order of the jobs.

    Raises:
        GenerationError: not as many answers as were asked for.
    """
    if len(answers) != len(requests):
        raise GenerationError(f"{len(requests)} prompts were to be answered, {len(answers)} were")
    out: dict[int, Sampled] = {}
    for request, found in zip(requests, answers, strict=True):
        if len(found) != len(request.places):
            raise GenerationError(f"{len(request.places)} answers to a prompt were asked for, {len(found)} came")
        out.update(zip(request.places, found, strict=True))
    return [out[place] for place in range(len(jobs))]


def seed_of(jobs: Sequence[Job]) -> int:
    """A seed for a whole call, 63 bits, from the first draw of every job: the same call again is the same draw."""
    first = np.array([job.draws[0] for job in jobs], np.float64)
    return int.from_bytes(blake2b(first.tobytes(), digest_size=8).digest(), "big") >> 1


def check_sampling(sampling: Sampling, who: str) -> None:
    """Refuse what an engine's answers do not say truly.

    Raises:
        ConfigError: entropies are asked for, or log-probabilities of a truncated distribution.
    """
    if sampling.entropies:
        raise ConfigError(f"{who} reports no entropies (branching needs them): use the transformers backend")
    if sampling.top_p < 1.0 or sampling.top_k > 0:
        raise ConfigError(
            f"{who} reports log-probabilities after truncation, not those of the whole distribution: use top_p=1 and "
            f"top_k=0, or the transformers backend; got {short_repr(sampling.top_p)} and {short_repr(sampling.top_k)}"
        )
    if 0.0 < sampling.temperature < 0.01:
        raise ConfigError(f"{who} samples at temperature 0 or from 0.01 on, got {short_repr(sampling.temperature)}")
