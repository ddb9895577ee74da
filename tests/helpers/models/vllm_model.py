"""A small model that vLLM's build for CPUs takes: heads of width 32, the narrowest that it supports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

__all__ = ["made_model", "made_policy"]


def made_model(architecture: Any, tied: bool) -> Any:
    """A model of two layers whose distributions are neither flat nor certain."""
    return made_policy(architecture, tied)[0]


def made_policy(architecture: Any, tied: bool) -> tuple[Any, Any]:
    """Such a model and its tokenizer."""
    from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

    config = ScratchConfig(
        hidden=128, layers=2, heads=4, kv_heads=2, intermediate=192, vocabulary=280, positions=512, init=0.15, tied=tied
    )
    if architecture.endswith("_vl"):
        from helpers.models.vision_model import VisionSizes, vision_policy

        return vision_policy(architecture, config, VisionSizes(hidden=128), seed=3)
    config = replace(config, architecture=architecture)
    tokenizer = build_tokenizer(["up down left right"] * 4, config)
    return build_model(config, tokenizer, seed=3), tokenizer
