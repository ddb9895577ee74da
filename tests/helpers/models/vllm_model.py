"""A small model that vLLM's build for CPUs takes: heads of width 32, the narrowest that it supports."""

from __future__ import annotations

from typing import Any

__all__ = ["made_model"]


def made_model(architecture: Any, tied: bool) -> Any:
    """A model of two layers whose distributions are neither flat nor certain."""
    from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

    config = ScratchConfig(
        architecture=architecture, hidden=128, layers=2, heads=4, kv_heads=2, intermediate=192, vocabulary=280,
        positions=512, init=0.15, tied=tied,
    )  # fmt: skip
    return build_model(config, build_tokenizer(["up down left right"] * 4, config), seed=3)
