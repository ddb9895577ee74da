"""Sample tokens with one uniform number each, so that an episode's randomness is its own."""

from __future__ import annotations

from typing import Any

import torch

from creditflow.agents.backends.base import Sampling
from creditflow.envs.errors import DataError

__all__ = ["ModelError", "entropy_of", "kept_tokens", "require_numbers", "sample_tokens", "token_probabilities"]


class ModelError(DataError):
    """A model whose weights give no numbers."""


def sample_tokens(logits: Any, uniform: Any, sampling: Sampling) -> tuple[Any, Any]:
    """Sample tokens by inverting the cumulative distribution.

    Args:
        logits: float32 (R, V).
        uniform: float64 (R,), in [0, 1).
        sampling: temperature and truncation.

    Returns:
        int64 (R,) tokens, float32 (R,) log-probabilities under the distribution sampled from (for greedy decoding: the
        whole distribution at temperature 1).

    Raises:
        ModelError: the model computes NaN.
    """
    logprobs = _log_softmax(logits, sampling)
    require_numbers(logprobs)
    if sampling.temperature == 0.0:
        token = logprobs.argmax(-1)
    else:
        probs = _weights(logprobs, sampling)
        cumulative = probs.cumsum(-1)
        token = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[:, 0]
        # the last token with positive probability, in case rounding puts the sample beyond the end
        last = probs.shape[-1] - 1 - (probs.flip(-1) > 0).to(torch.int8).argmax(-1)
        token = torch.minimum(token, last)
    logprob = logprobs.gather(-1, token[:, None])[:, 0]
    if sampling.temperature > 0.0 and sampling.truncated:
        logprob = logprob - cumulative[:, -1].log().float()
    return token, logprob


def token_probabilities(logits: Any, sampling: Sampling) -> Any:
    """float64 (R, V): the distribution from which ``sample_tokens`` samples; rows sum to 1, one-hot for greedy decoding.

    Args:
        logits: float32 (R, V).
        sampling: temperature and truncation.

    Raises:
        ModelError: the model computes NaN.
    """
    logprobs = _log_softmax(logits, sampling)
    require_numbers(logprobs)
    if sampling.temperature == 0.0:
        return torch.zeros_like(logprobs, dtype=torch.float64).scatter(-1, logprobs.argmax(-1, keepdim=True), 1.0)
    weights = _weights(logprobs, sampling)
    return weights / weights.sum(-1, keepdim=True)


def require_numbers(logprobs: Any) -> None:
    """Reject log-probabilities that are no numbers, from which no token can be drawn.

    Raises:
        ModelError: one is NaN.
    """
    if bool(torch.isnan(logprobs).any()):
        raise ModelError(
            "the model computes NaN instead of probabilities: its weights are damaged or have overflowed (a run that diverged, float16). "
            "Use an earlier checkpoint, or another type: model.dtype=float32"
        )


def _log_softmax(logits: Any, sampling: Sampling) -> Any:
    """Log-probabilities at the sampler's temperature (at temperature 1 for greedy decoding)."""
    return torch.log_softmax(logits if sampling.temperature in (0.0, 1.0) else logits / sampling.temperature, -1)


def _weights(logprobs: Any, sampling: Sampling) -> Any:
    """float64 (R, V): unnormalised probabilities, 0 for truncated tokens."""
    probs = logprobs.double().exp()
    if sampling.top_k or sampling.top_p < 1.0:
        return torch.where(kept_tokens(probs, sampling), probs, 0.0)
    return probs


def entropy_of(logits: Any, sampling: Sampling) -> Any:
    """float32 (R,): entropy (nats) of the untruncated distribution at the sampler's temperature (at temperature 1 if it is 0)."""
    logprobs = _log_softmax(logits, sampling)
    return -(logprobs.exp() * logprobs).sum(-1)


def kept_tokens(probs: Any, sampling: Sampling) -> Any:
    """Bool (R, V): the nucleus. The k most likely tokens and, among them, the smallest set with probability p or more under the whole distribution."""
    ordered, order = probs.sort(-1, descending=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if sampling.top_k:
        keep[:, sampling.top_k :] = False
    if sampling.top_p < 1.0:
        keep &= ordered.cumsum(-1) - ordered < sampling.top_p
    return torch.zeros_like(keep).scatter(-1, order, keep)
