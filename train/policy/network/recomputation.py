"""Recomputation of activations in the backward pass: more arithmetic, less memory, the same gradient."""

from __future__ import annotations

from typing import Any

__all__ = ["recompute_activations"]


def recompute_activations(model: Any) -> None:
    """Enable gradient checkpointing: every layer of a transformers model stores its input only.

    transformers renamed the method within release 5, with another keyword, and removes the old name in release 6.
    """
    settings = {"use_reentrant": False}  # the reentrant kind ignores inputs that need no gradient, such as embedded ids
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)
