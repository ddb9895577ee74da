"""Autocast of forward passes; weights and moments stay in fp32, because AdamW in pure bf16 loses small updates."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

__all__ = ["autocast"]


def autocast(kind: str, device: Any) -> Any:
    """A context for forward passes: "none" or "bfloat16"."""
    if kind == "none":
        return contextlib.nullcontext()
    return torch.autocast(device_type=device.type, dtype=getattr(torch, kind))
