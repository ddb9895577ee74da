"""Attention of one block of queries to one block of keys, with what merging such blocks needs: the logarithms of their sums.

For queries that attend to several blocks, the result is the mean of the blocks' results weighted by their sums of exponentials.
Given that result and the sum over all blocks, the gradient of each block is computed alone, as in FlashAttention (arXiv
2205.14135, appendix B), so nothing of size queries × keys is kept. On a CPU torch's own kernel does it, elsewhere products of
matrices, a block of queries at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

__all__ = ["MASKED", "attend", "attend_backward", "has_own_kernel"]

SCORES: Final = 2**24  # numbers in a block of scores
MASKED: Final = 1e30  # as logarithm of a sum: a query that attends to nothing
_CPU_KERNELS: Final = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
)


def has_own_kernel(device: Any) -> bool:
    """Whether torch has a kernel for a device that returns the sums."""
    return torch.device(device).type == "cpu" and all(hasattr(torch.ops.aten, name) for name in _CPU_KERNELS)


def attend(q: Any, k: Any, v: Any, *, causal: bool, scale: float, own_kernel: bool) -> tuple[Any, Any]:
    """Results (B, H, Q, D), and logarithms of the sums of exponentials (B, H, Q), float32 or wider.

    Args:
        q: (B, H, Q, D).
        k, v: (B, H, K, D); Q = K if causal.
        causal: a query attends to keys up to its own place.
        scale: factor of the scores.
        own_kernel: use torch's own kernel, see ``has_own_kernel``.
    """
    if own_kernel:
        out, sums = getattr(torch.ops.aten, _CPU_KERNELS[0])(q, k, v, 0.0, causal, scale=scale)
        return out, sums
    q, k, v = _wide(q, k, v)
    parts = []
    for _, scores in _scores(q, k, causal, scale):
        sums = scores.logsumexp(-1)
        seen = v[:, :, : scores.shape[-1]]
        parts.append(((scores - sums[..., None]).exp_() @ seen, sums))
    return torch.cat([out for out, _ in parts], 2), torch.cat([sums for _, sums in parts], 2)


def attend_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, sums: Any, *, causal: bool, scale: float, own_kernel: bool
) -> tuple[Any, Any, Any]:
    """Gradients of q, k and v by one block.

    Args:
        grad: (B, H, Q, D), gradient of the result.
        q, k, v, causal, scale, own_kernel: as in the forward pass.
        out, sums: the result and the logarithms over all blocks that the queries attend to.
    """
    if own_kernel:
        dq, dk, dv = getattr(torch.ops.aten, _CPU_KERNELS[1])(grad, q, k, v, out, sums, 0.0, causal, scale=scale)
        return dq, dk, dv
    grad, q, k, v, out = _wide(grad, q, k, v, out)
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)
    parts = []
    inner = (grad * out).sum(-1, keepdim=True)
    for rows, scores in _scores(q, k, causal, scale):
        seen = slice(scores.shape[-1])
        weights = scores.sub_(sums[:, :, rows, None]).exp_()
        dv[:, :, seen] += weights.transpose(-1, -2) @ grad[:, :, rows]
        change = (grad[:, :, rows] @ v[:, :, seen].transpose(-1, -2)).sub_(inner[:, :, rows])
        change = change.mul_(weights).mul_(scale)
        parts.append(change @ k[:, :, seen])
        dk[:, :, seen] += change.transpose(-1, -2) @ q[:, :, rows]
    return torch.cat(parts, 2), dk, dv


def _wide(*values: Any) -> list[Any]:
    """The same numbers in float32, or wider if they are."""
    return [one.to(torch.promote_types(one.dtype, torch.float32)) for one in values]


def _scores(q: Any, k: Any, causal: bool, scale: float) -> Iterator[tuple[slice, Any]]:
    """Blocks of queries, and their scores with the keys that they may see."""
    batch, heads, queries, _ = q.shape
    step = max(1, SCORES // (batch * heads * k.shape[2]))
    for start in range(0, queries, step):
        rows = slice(start, min(start + step, queries))
        keys = k[:, :, : rows.stop] if causal else k
        scores = (q[:, :, rows] @ keys.transpose(-1, -2)).mul_(scale)
        if causal:
            size = rows.stop - rows.start
            later = torch.ones((size, size), dtype=torch.bool, device=q.device).triu_(1)
            scores[..., start:].masked_fill_(later, -torch.inf)
        yield rows, scores
