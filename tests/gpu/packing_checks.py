"""Equality tests of packed rows on a device: against padded ones, and each attention kernel against the portable one in fp32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from gpu.gradients import gradient_gap, largest, weighted_gradient, within
from gpu.rows import HIGHEST, LOWEST, rows_with_prompt, uneven_rows

from creditflow.train.policy.packing.attention import check_packing
from creditflow.train.policy.packing.forest import Forest
from creditflow.train.policy.packing.fused import Paths, available_kernels, fused_attention
from creditflow.train.policy.packing.portable import Layout, portable_attention
from creditflow.train.policy.samples import Row

__all__ = ["packing_checks"]

FP32: Final = 1e-4  # see ``gradient_gap``
BF16: Final = 0.02  # of an attention's results and gradients, relative to the largest
BUDGETS: Final = (4096, 100)
SCALE: Final = 0.125


def packing_checks(model: Any, device: Any) -> dict[str, Callable[[], dict[str, Any]]]:
    """Named checks; each raises ArithmeticError when an equality does not hold, ``ConfigError`` when the trainer's own fails.

    Args:
        model: a small causal language model on the device.
        device: the device.
    """
    named: dict[str, Callable[[], dict[str, Any]]] = {
        "packed-padded": partial(_rows, model, uneven_rows()),
        "shared-prompts": partial(_rows, model, rows_with_prompt(np.random.default_rng(0), 10, 40, 12)),
        "shared-turns": partial(_rows, model, _turns()),
        "packing-check": partial(_accepted, model),
        "kernel-matrices": partial(_kernel, device, ""),
    }
    return named | {f"kernel-{name}": partial(_kernel, device, name) for name in available_kernels(device)}


def _turns() -> list[Row]:
    """Rows of the turns of three append-only episodes."""
    rng, rows = np.random.default_rng(0), []
    for i in range(3):
        ids = rng.integers(LOWEST, HIGHEST, 60).astype(np.int32)
        for end in range(10, 61, 10):
            target = np.arange(end - 4, end)
            n = len(target)
            advantage, sampler = rng.normal(size=n), np.full(n, -5.0, np.float32)
            rows.append(Row(ids[:end], target, advantage, sampler, np.full(n, end, np.int32), i, end))
    return rows


def _rows(model: Any, rows: list[Row]) -> dict[str, Any]:
    expected = weighted_gradient(model, rows, "padded", BUDGETS[0])
    gaps = [gradient_gap(weighted_gradient(model, rows, "packed", budget), expected) for budget in BUDGETS]
    return within(largest(gaps), FP32, "packed rows")


def _accepted(model: Any) -> dict[str, Any]:
    """What a training run asks before it starts, in both precisions."""
    for precision in ("none", "bfloat16"):
        check_packing(model, precision)
    return {"accepted": 1.0}


def _kernel(device: Any, kernel: str) -> dict[str, Any]:
    """Results and gradients over a forest of three levels, grouped heads; "" is the portable one by products of matrices."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 99, 70), rng.integers(0, 99, 5)]
    middles = [np.concatenate([prompt, rng.integers(0, 99, n)]) for prompt in prompts for n in (1, 40, 130)]
    forest = Forest.of([np.concatenate([one, rng.integers(0, 99, n)]) for one in middles for n in (1, 17, 64)])
    generator = torch.Generator().manual_seed(0)
    q, k, v, wanted = (torch.randn(len(forest), heads, 64, generator=generator).to(device) for heads in (8, 2, 2, 8))

    def plain(*inputs: Any) -> Any:
        return _plain(forest, *inputs)

    def tested(q: Any, k: Any, v: Any) -> Any:
        if kernel:
            return fused_attention(q, k, v, Paths.of(forest, device), SCALE, kernel)
        return portable_attention(q, k, v, Layout.of(forest, device), SCALE, own_kernel=False)

    results = []
    for attention, dtype in ((plain, torch.float32), (tested, torch.bfloat16 if kernel else torch.float32)):
        inputs = [one.to(dtype, copy=True).requires_grad_() for one in (q, k, v)]
        out = attention(*inputs)
        results.append([out.detach(), *torch.autograd.grad(out, inputs, wanted.to(dtype))])
    pairs = zip(*results, strict=True)
    gap = largest([float((found.float() - exact).abs().max() / exact.abs().max()) for exact, found in pairs])
    return within(gap, BF16 if kernel else FP32, kernel or "products of matrices")


def _plain(forest: Forest, q: Any, k: Any, v: Any) -> Any:
    """Scaled dot-product attention of every segment by itself, with an explicit mask."""
    heads, parts = q.shape[1] // k.shape[1], []
    for segment, (start, stop) in enumerate(zip(forest.starts.tolist(), forest.stops.tolist(), strict=True)):
        path = torch.from_numpy(forest.path(segment)).to(q.device)
        queries = q[start:stop].transpose(0, 1)
        keys, values = (one[path].repeat_interleave(heads, 1).transpose(0, 1) for one in (k, v))
        own = torch.arange(len(path) - (stop - start), len(path), device=q.device)
        seen = torch.arange(len(path), device=q.device)[None, :] <= own[:, None]
        scores = (queries @ keys.transpose(1, 2) * SCALE).masked_fill(~seen, -torch.inf)
        parts.append((scores.softmax(-1) @ values).transpose(0, 1))
    return torch.cat(parts)
