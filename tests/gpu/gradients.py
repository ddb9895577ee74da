"""What equality tests of an update compare: the log-probabilities of rows, and the gradient of their weighted sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from creditflow.train.policy.batching import Packing, batches_of
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.samples import Row

__all__ = ["gradient_gap", "largest", "weighted_gradient", "within"]


def weighted_gradient(model: Any, rows: Sequence[Row], packing: Packing, budget: int) -> tuple[Any, Any]:
    """Log-probabilities by row, and the gradient of their sum weighted by the advantages, each float32 (n,)."""
    device = next(model.parameters()).device
    model.zero_grad(set_to_none=True)
    found: dict[int, Any] = {}
    for batch in batches_of(rows, budget, device, packing):
        logprob = token_logprobs(model, batch).logprob
        weight = torch.from_numpy(np.concatenate([rows[i].advantage for i in batch.rows])).to(device, torch.float32)
        (logprob * weight).sum().backward()
        found |= dict(zip(batch.rows, logprob.detach().split([len(rows[i].target) for i in batch.rows]), strict=True))
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad(set_to_none=True)
    return torch.cat([found[i] for i in range(len(rows))]), gradient


def gradient_gap(found: tuple[Any, Any], expected: tuple[Any, Any]) -> float:
    """Largest difference of a log-probability, or of a gradient relative to the largest."""
    (logprob, gradient), (expected_logprob, expected_gradient) = found, expected
    relative = (gradient - expected_gradient).abs().max() / expected_gradient.abs().max()
    return largest([float((logprob - expected_logprob).abs().max()), float(relative)])


def largest(gaps: Sequence[float]) -> float:
    """The largest of some differences; nan if one is, which Python's own ``max`` may drop."""
    return float(np.max(gaps))


def within(gap: float, limit: float, what: str) -> dict[str, Any]:
    """The result of a check.

    Raises:
        ArithmeticError: the gap is above the limit, or not a number.
    """
    if not gap <= limit:
        raise ArithmeticError(f"{what}: off by {gap:.3g}, allowed {limit:.3g}")
    return {"max_difference": gap, "allowed": limit}
