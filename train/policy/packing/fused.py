"""Attention over a forest by the variable-length kernels of CUDA: FlashAttention's where it is installed, else torch's own.

Queries are a segment's own tokens, keys those of its path from the root: the last query sees the last key, which is how both
kernels align a causal mask of unequal lengths. They take 16-bit numbers only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, Final

import numpy as np
import torch

from creditflow.train.policy.packing.forest import Forest

__all__ = ["KERNELS", "Paths", "available_kernels", "fused_attention", "fused_kernel"]

WIDEST, MULTIPLE = 256, 8  # head dimensions that the kernels take
AMPERE: Final = (8, 0)  # compute capability


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """The segments of a forest and their paths, as these kernels want them.

    Attributes:
        queries, keys: int32 (S + 1,), bounds of every segment's queries and of its path among the gathered keys.
        longest_query, longest_key: largest numbers of both.
        index: int64 (K,), the tokens of all paths; None where every path is its own segment, so that nothing is gathered.
    """

    queries: Any
    keys: Any
    longest_query: int
    longest_key: int
    index: Any

    @classmethod
    def of(cls, forest: Forest, device: Any) -> Paths:
        """The paths of a forest, with their indices on a device."""
        lengths = forest.stops - forest.starts
        shared = bool((forest.parents >= 0).any())
        paths = [forest.path(segment) for segment in range(len(lengths))] if shared else []
        sizes = np.array([len(path) for path in paths]) if shared else lengths

        def bounds(counts: Any) -> Any:
            return torch.from_numpy(np.append(0, np.cumsum(counts)).astype(np.int32)).to(device)

        index = torch.from_numpy(np.concatenate(paths)).to(device) if shared else None
        return cls(bounds(lengths), bounds(sizes), int(lengths.max()), int(sizes.max()), index)


def _flash_attn(q: Any, k: Any, v: Any, paths: Paths, scale: float) -> Any:
    from flash_attn import flash_attn_varlen_func  # Tri Dao's package

    return flash_attn_varlen_func(
        q, k, v, paths.queries, paths.keys, paths.longest_query, paths.longest_key, softmax_scale=scale, causal=True
    )


def _torch(q: Any, k: Any, v: Any, paths: Paths, scale: float) -> Any:
    from torch.nn.attention.varlen import varlen_attn

    grouped = {}
    if q.shape[1] != k.shape[1]:
        if "enable_gqa" in signature(varlen_attn).parameters:
            grouped = {"enable_gqa": True}
        else:  # torch 2.11 promises results for equal numbers of heads only
            k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], 1) for tensor in (k, v))
    return varlen_attn(
        q,
        k,
        v,
        paths.queries,
        paths.keys,
        paths.longest_query,
        paths.longest_key,
        scale=scale,
        window_size=(-1, 0),
        **grouped,
    )


KERNELS: Final[dict[str, Callable[[Any, Any, Any, Paths, float], Any]]] = {"flash_attn": _flash_attn, "torch": _torch}


def fused_kernel(q: Any) -> str:
    """The name of the kernel for these queries, (T, H, D); "" if there is none."""
    size = q.shape[-1]
    if q.dtype not in (torch.float16, torch.bfloat16) or size > WIDEST or size % MULTIPLE:
        return ""
    return next(iter(available_kernels(q.device)), "")


@cache
def available_kernels(device: Any) -> tuple[str, ...]:
    """The names of the kernels that a device has, the preferred one first."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < AMPERE:
        return ()
    return ("flash_attn", "torch") if _has_flash_attn() else ("torch",)


def _has_flash_attn() -> bool:
    """Whether the package has its function: flash-attn-4 installs a namespace of the same name without it."""
    try:
        import flash_attn
    except ImportError:
        return False
    return hasattr(flash_attn, "flash_attn_varlen_func")


def fused_attention(q: Any, k: Any, v: Any, paths: Paths, scale: float, kernel: str) -> Any:
    """(T, H, D): what every token of a forest reads from its path.

    Args:
        q: (T, H, D), 16-bit.
        k, v: (T, H_kv, D), H a multiple of H_kv.
        paths: the forest.
        scale: factor of the scores.
        kernel: one of ``KERNELS``.
    """
    if paths.index is not None:
        k, v = k.index_select(0, paths.index), v.index_select(0, paths.index)
    return KERNELS[kernel](q.contiguous(), k.contiguous(), v.contiguous(), paths, scale)
