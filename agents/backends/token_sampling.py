"""Sample tokens with one uniform number each, so that an episode's randomness is its own."""

from __future__ import annotations

from typing import Any

import torch

from creditflow.agents.backends.base import Sampling

__all__ = ["entropy_of", "sample_tokens"]


def sample_tokens(logits: Any, uniform: Any, sampling: Sampling) -> tuple[Any, Any]:
    """Sample tokens by inverting the cumulative distribution.

    Args:
        logits: float32 (R, V).
        uniform: float64 (R,), in [0, 1).
        sampling: temperature and truncation.

    Returns:
        int64 (R,) tokens, float32 (R,) log-probabilities under the untruncated distribution (at temperature 1 for greedy
        decoding).
    """
    greedy = sampling.temperature == 0.0
    logprobs = torch.log_softmax(logits if greedy or sampling.temperature == 1.0 else logits / sampling.temperature, -1)
    if greedy:
        token = logprobs.argmax(-1)
    else:
        probs = logprobs.double().exp()
        if sampling.top_k or sampling.top_p < 1.0:
            probs = _truncate(probs, sampling)
        cumulative = probs.cumsum(-1)
        token = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[:, 0]
        # the last token with any mass, in case rounding puts the sample beyond the end
        last = probs.shape[-1] - 1 - (probs.flip(-1) > 0).to(torch.int8).argmax(-1)
        token = torch.minimum(token, last)
    return token, logprobs.gather(-1, token[:, None])[:, 0]


def entropy_of(logits: Any, sampling: Sampling) -> Any:
    """float32 (R,): entropy (nats) of the untruncated distribution at the sampler's temperature (at temperature 1 if it is 0)."""
    logprobs = torch.log_softmax(logits if sampling.temperature in (0.0, 1.0) else logits / sampling.temperature, -1)
    return -(logprobs.exp() * logprobs).sum(-1)


def _truncate(probs: Any, sampling: Sampling) -> Any:
    """Set to zero all but the k most likely tokens, and all outside the smallest set with mass p."""
    ordered, order = probs.sort(-1, descending=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if sampling.top_k:
        keep[:, sampling.top_k :] = False
    if sampling.top_p < 1.0:
        keep &= ordered.cumsum(-1) - ordered < sampling.top_p
    return torch.zeros_like(probs).scatter(-1, order, ordered * keep)
