"""What a backend is: it continues token sequences and returns their log-probabilities.

Ids in, ids out: nothing is encoded or decoded here, so what is trained on is what was sampled.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, CreditflowError, short_repr
from creditflow.wrappers.records.pictures import EncodedPicture

__all__ = [
    "TEMPERATURES",
    "Backend",
    "Completion",
    "GenerationError",
    "GenerationRequest",
    "Sampling",
    "TrainedBackend",
    "WeightPushError",
]


TEMPERATURES: Final = (1e-6, 1e6)  # at others float32 logits overflow, or a token of probability 0 becomes undefined


class GenerationError(CreditflowError, RuntimeError):
    """An engine or server failed to continue the sequences it was given."""


class WeightPushError(GenerationError):
    """The sampler does not have the weights that were pushed to it."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings.

    Attributes:
        max_new_tokens: maximum length of a completion, its end token included.
        temperature: logits are divided by it (see ``TEMPERATURES``); 0 takes the most likely token.
        top_p, top_k: truncation of the distribution (1.0 and 0: none). The reported log-probabilities are those of the
            truncated, renormalised distribution at this temperature.
        entropies: number of leading tokens of a completion for which the entropy of the sampling distribution is reported.

    Raises:
        ConfigError: a number out of range.
    """

    max_new_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    entropies: int = 0

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be at least 1, got {short_repr(self.max_new_tokens)}")
        if self.entropies < 0:
            raise ConfigError(f"entropies must be a number of tokens ≥ 0, got {short_repr(self.entropies)}")
        lowest, highest = TEMPERATURES
        if self.temperature != 0.0 and not lowest <= self.temperature <= highest:
            raise ConfigError(
                f"temperature must be 0 (the most likely token) or lie between {lowest:g} and {highest:g}, because logits divided by it "
                f"must be finite; got {short_repr(self.temperature)}"
            )
        if not 0.0 < self.top_p <= 1.0 or self.top_k < 0:
            raise ConfigError(
                f"top_p must lie in (0, 1] and top_k be ≥ 0, got {short_repr(self.top_p)} and {short_repr(self.top_k)}"
            )

    def check_context(self, context: int) -> None:
        """Check that the longest completion leaves at least one token of a context for the prompt.

        Args:
            context: maximum length of prompt and completion together, in tokens; 0 if unknown.

        Raises:
            ConfigError: no prompt fits, so every episode would end without a turn.
        """
        if self.max_new_tokens >= context > 0:
            raise ConfigError(
                f"max_new_tokens is {self.max_new_tokens} in a context of {context} tokens, which leaves none for the prompt; "
                "lower max_new_tokens, or raise max_context if the model's limit allows it"
            )

    @property
    def truncated(self) -> bool:
        """Whether tokens are sampled from less than the full distribution."""
        return self.top_p < 1.0 or self.top_k > 0 or self.temperature == 0.0


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sequence to continue.

    Attributes:
        key: identifies the conversation: a backend may keep what it computed for a key's earlier tokens.
        ids: int32 (L,), the whole sequence so far, L ≥ 1.
        uniforms: float64 (max_new_tokens,), in [0, 1): the random numbers of this completion, which belong to its episode
            alone.
        pictures: the pictures in ``ids``, in order.
    """

    key: Hashable
    ids: NDArray[np.int32]
    uniforms: NDArray[np.float64]
    pictures: tuple[EncodedPicture, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model generated for one request.

    Attributes:
        ids: int32 (n,), 1 ≤ n ≤ max_new_tokens; the last is an end token unless the completion was truncated.
        logprobs: float32 (n,).
        entropies: float32 (min(n, Sampling.entropies),), nats.
        exact: whether ids and log-probabilities are those that the completion was sampled with; if not (a server that
            returns text only), its action can be executed, but a token record of it would be wrong.
    """

    ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    entropies: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    exact: bool = True


class Backend(Protocol):
    """Continues sequences in batches.

    Attributes:
        version: names the weights in logs.
        context: maximum sequence length; 0 if unknown.
    """

    version: str
    context: int

    def generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        """Generate one completion per request."""
        ...


class TrainedBackend(Backend, Protocol):
    """Samples from a model that is being trained.

    In every iteration: ``generate`` …, ``sleep``, the update, ``sync``.

    Attributes:
        device: device of the trained model.
        sync_numbers: metrics of the last ``sync``; {} if it had nothing to do.
    """

    device: Any
    sync_numbers: dict[str, float]

    def sync(self, version: str = "") -> None:
        """Wake up and sample from the trained model's present weights from now on.

        Raises:
            WeightPushError: the weights did not arrive.
        """
        ...

    def sleep(self) -> None:
        """Free the memory that only sampling needs; the next ``sync`` wakes the sampler."""
        ...
