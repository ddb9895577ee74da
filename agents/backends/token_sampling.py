"""Drawing tokens: one uniform number a token, so that an episode's randomness is its own."""

from __future__ import annotations

from typing import Any

import torch

from creditflow.agents.backends.base import Sampling

__all__ = ["draw", "entropy_of"]


def draw(logits: Any, uniform: Any, sampling: Sampling) -> tuple[Any, Any]:
    """Tokens and their log-probabilities, by inverting the cumulative distribution.

    Args:
        logits: float32 (R, V).
        uniform: float64 (R,), in [0, 1).
        sampling: temperature and truncation.

    Returns:
        int64 (R,) tokens, float32 (R,) log-probabilities under the untruncated distribution (at temperature 1 if the
        most likely token is taken).
    """
    greedy = sampling.temperature == 0.0
    scores = torch.log_softmax(logits if greedy or sampling.temperature == 1.0 else logits / sampling.temperature, -1)
    if greedy:
        token = scores.argmax(-1)
    else:
        chances = scores.double().exp()
        if sampling.top_k or sampling.top_p < 1.0:
            chances = _truncate(chances, sampling)
        cumulative = chances.cumsum(-1)
        token = torch.searchsorted(cumulative, (uniform * cumulative[:, -1])[:, None], right=True)[:, 0]
        # the last token with any mass, should rounding carry the draw beyond the end
        last = chances.shape[-1] - 1 - (chances.flip(-1) > 0).to(torch.int8).argmax(-1)
        token = torch.minimum(token, last)
    return token, scores.gather(-1, token[:, None])[:, 0]


def entropy_of(logits: Any, sampling: Sampling) -> Any:
    """float32 (R,): entropy (nats) of the untruncated distribution at the sampler's temperature (1 if it is 0)."""
    scores = torch.log_softmax(logits if sampling.temperature in (0.0, 1.0) else logits / sampling.temperature, -1)
    return -(scores.exp() * scores).sum(-1)


def _truncate(chances: Any, sampling: Sampling) -> Any:
    """Zero what lies outside the k most likely tokens, and outside the smallest set with mass p."""
    ordered, order = chances.sort(-1, descending=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if sampling.top_k:
        keep[:, sampling.top_k :] = False
    if sampling.top_p < 1.0:
        keep &= ordered.cumsum(-1) - ordered < sampling.top_p
    return torch.zeros_like(chances).scatter(-1, order, ordered * keep)
