"""Attention over a forest with PyTorch alone: every token attends to its own segment and to each segment above it.

A segment's descendants follow it in depth-first order, so those that attend to all its keys are one range of queries: no key is
copied, and no mask is needed but the causal one within segments. Segments of similar length are padded and run together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.policy.packing.forest import Forest

__all__ = ["MASKED", "Layout", "Tile", "attend", "attend_backward", "has_own_kernel", "portable_attention"]

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
    blocks = []
    for _, scores in _scores(q, k, causal, scale):
        sums = scores.logsumexp(-1)
        seen = v[:, :, : scores.shape[-1]]
        blocks.append(((scores - sums[..., None]).exp_() @ seen, sums))
    return torch.cat([out for out, _ in blocks], 2), torch.cat([sums for _, sums in blocks], 2)


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
    query_gradients = []
    inner = (grad * out).sum(-1, keepdim=True)
    for rows, scores in _scores(q, k, causal, scale):
        seen = slice(scores.shape[-1])
        weights = scores.sub_(sums[:, :, rows, None]).exp_()
        dv[:, :, seen] += weights.transpose(-1, -2) @ grad[:, :, rows]
        change = (grad[:, :, rows] @ v[:, :, seen].transpose(-1, -2)).sub_(inner[:, :, rows])
        change = change.mul_(weights).mul_(scale)
        query_gradients.append(change @ k[:, :, seen])
        dk[:, :, seen] += change.transpose(-1, -2) @ q[:, :, rows]
    return torch.cat(query_gradients, 2), dk, dv


def _wide(*values: Any) -> list[Any]:
    """The same numbers in float32, or wider if they are."""
    return [tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in values]


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


PADDING: Final = (16, 0.2)  # a segment joins a longer one if that adds fewer tokens of padding, or this fraction


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """Segments that are run together, padded at their ends.

    Attributes:
        shape: number of segments, and length of the longest.
        index: int64 (B · L,), token of every slot; 0 for padding, whose results are dropped.
        real: int64 (n,), the slots that hold tokens.
        tokens: int64 (n,), these tokens, each once; None if the tile is one range of tokens, which begins at ``start``.
        start: first token of a tile without padding and gaps.
    """

    shape: tuple[int, int]
    index: Any
    real: Any
    tokens: Any
    start: int

    def take(self, values: Any, padding: float | None = None) -> Any:
        """(T, H, …) to (B, H, L, …); ``padding`` replaces what is not a token."""
        batch, length = self.shape
        if self.tokens is None:
            rows = values[self.start : self.start + batch * length]
        else:
            rows = values.index_select(0, self.index)
            if padding is not None and len(self.real) < len(self.index):
                padded = torch.full_like(rows, padding)
                padded.index_copy_(0, self.real, rows.index_select(0, self.real))
                rows = padded
        return rows.view(batch, length, *values.shape[1:]).transpose(1, 2)

    def put(self, values: Any, out: Any) -> None:
        """Write (B, H, L, …) to its tokens in (T, H, …)."""
        flat = values.transpose(1, 2).reshape(-1, *out.shape[1:])
        if self.tokens is None:
            out[self.start : self.start + len(flat)] = flat
        else:
            out.index_copy_(0, self.tokens, flat.index_select(0, self.real).to(out.dtype))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How a forest is run.

    Attributes:
        tiles: all segments, each attending to itself.
        shared: (start, stop, end) of every segment with descendants: tokens start … stop are keys of queries stop … end.
    """

    tiles: list[Tile]
    shared: list[tuple[int, int, int]]

    @classmethod
    def of(cls, forest: Forest, device: Any) -> Layout:
        """The layout of a forest, with its indices on a device."""
        lengths = forest.stops - forest.starts
        order = np.argsort(-lengths, kind="stable")
        runs: list[list[int]] = []
        for segment in order.tolist():
            longest = int(lengths[runs[-1][0]]) if runs else 0
            if not runs or longest - lengths[segment] > max(PADDING[0], PADDING[1] * longest):
                runs.append([])
            runs[-1].append(segment)
        tiles = [_tile(forest, np.sort(np.array(run)), lengths, device) for run in runs]
        spans = np.stack([forest.starts, forest.stops, forest.ends], 1)
        return cls(tiles, [(a, b, c) for a, b, c in spans.tolist() if c > b])


def _tile(forest: Forest, run: NDArray[np.int64], lengths: NDArray[np.int64], device: Any) -> Tile:
    shape = len(run), int(lengths[run].max())
    slots = forest.starts[run][:, None] + np.arange(shape[1])
    real = slots < forest.stops[run][:, None]
    tokens = slots[real]
    start = int(tokens[0])
    if real.all() and (tokens == start + np.arange(len(tokens))).all():
        return Tile(shape, None, None, None, start)
    index, at = np.where(real, slots, 0).reshape(-1), np.flatnonzero(real)
    arrays = [torch.from_numpy(array.astype(np.int64)).to(device) for array in (index, at, tokens)]
    return Tile(shape, arrays[0], arrays[1], arrays[2], start)


def portable_attention(q: Any, k: Any, v: Any, layout: Layout, scale: float, own_kernel: bool | None = None) -> Any:
    """(T, H, D): what every token of a forest reads from its path.

    Args:
        q: (T, H, D), one type for all three.
        k, v: (T, H_kv, D), H a multiple of H_kv.
        layout: the forest.
        scale: factor of the scores.
        own_kernel: whether torch's own kernel computes the blocks; None: where it has one.
    """
    own_kernel = has_own_kernel(q.device) if own_kernel is None else own_kernel
    with torch.autocast(
        q.device.type, enabled=False
    ):  # it would make scores narrow, and those of the backward pass not
        return _ForestAttention.apply(q.contiguous(), k, v, layout, scale, own_kernel)


class _ForestAttention(torch.autograd.Function):
    """Results over blocks, merged; only the inputs, the result and the sums are kept for the gradient."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, layout: Layout, scale: float, own_kernel: bool) -> Any:
        keys, values = (_repeated(tensor, q.shape[1]) for tensor in (k, v))
        out = torch.empty_like(q, dtype=torch.promote_types(q.dtype, torch.float32))
        sums = torch.empty(q.shape[:2], dtype=out.dtype, device=q.device)
        for tile in layout.tiles:
            inputs = [tile.take(tensor) for tensor in (q, keys, values)]
            block, block_sums = attend(*inputs, causal=True, scale=scale, own_kernel=own_kernel)
            tile.put(block, out)
            tile.put(block_sums.to(sums.dtype), sums)
        for start, stop, end in layout.shared:
            inputs = [_block(q, stop, end), _block(keys, start, stop), _block(values, start, stop)]
            block, block_sums = attend(*inputs, causal=False, scale=scale, own_kernel=own_kernel)
            _merge(out[stop:end], sums[stop:end], block[0].transpose(0, 1), block_sums[0].transpose(0, 1))
        ctx.layout, ctx.scale, ctx.own_kernel = layout, scale, own_kernel
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, sums)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]  # torch is not typed here
    def backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
        q, k, v, out, sums = ctx.saved_tensors
        grad, layout = grad.contiguous(), ctx.layout
        options = {"scale": ctx.scale, "own_kernel": ctx.own_kernel}
        keys, values = (_repeated(tensor, q.shape[1]) for tensor in (k, v))
        wide = torch.promote_types(q.dtype, torch.float32)
        dq, dk, dv = (torch.empty_like(tensor, dtype=wide) for tensor in (q, keys, values))
        for tile in layout.tiles:
            inputs = [*(tile.take(tensor) for tensor in (grad, q, keys, values, out)), tile.take(sums, MASKED)]
            gradients = attend_backward(*inputs, causal=True, **options)
            for gradient, total in zip(gradients, (dq, dk, dv), strict=True):
                tile.put(gradient, total)
        for start, stop, end in layout.shared:
            upper = [_block(tensor, stop, end) for tensor in (grad, q, out, sums)]
            lower = [_block(tensor, start, stop) for tensor in (keys, values)]
            gradients = attend_backward(*upper[:2], *lower, *upper[2:], causal=False, **options)
            for gradient, total in zip(gradients, (dq[stop:end], dk[start:stop], dv[start:stop]), strict=True):
                total += gradient[0].transpose(0, 1)
        dk, dv = (_summed(tensor, k.shape[1]) for tensor in (dk, dv))
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None


def _block(values: Any, start: int, stop: int) -> Any:
    """A range of tokens (T, H, …) as (1, H, n, …)."""
    return values[start:stop].transpose(0, 1)[None]


def _repeated(values: Any, heads: int) -> Any:
    """(T, H_kv, D) to (T, H, D): heads of a group of queries have the same keys."""
    return values.contiguous() if values.shape[1] == heads else values.repeat_interleave(heads // values.shape[1], 1)


def _summed(values: Any, heads: int) -> Any:
    """The gradient of ``_repeated``."""
    return values if values.shape[1] == heads else values.unflatten(1, (heads, -1)).sum(2)


def _merge(out: Any, sums: Any, part: Any, part_sums: Any) -> None:
    """Add a block to results (n, H, D) and logarithms (n, H), in place."""
    total = torch.logaddexp(sums, part_sums.to(sums.dtype))
    out.mul_((sums - total).exp_()[..., None]).add_(part * (part_sums - total).exp_()[..., None])
    sums.copy_(total)
