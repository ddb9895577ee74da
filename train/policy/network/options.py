"""How a network computes: its device, the precision of its passes, recomputed activations, a frozen vision tower."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from creditflow.agents.models.vision import has_vision
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["autocast", "freeze_vision", "pick_device", "recompute_activations"]


def pick_device(name: str) -> Any:
    """The torch device of a setting; "auto" is the GPU if there is one.

    Raises:
        ConfigError: no name of a device, or a GPU is named and torch finds none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(f"device {name!r}: torch {torch.__version__} finds no GPU; set device to cpu or auto")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:N, got {short_repr(name)}") from error


def autocast(kind: str, device: Any) -> Any:
    """A context for forward passes: "none" or "bfloat16"."""
    if kind == "none":
        return contextlib.nullcontext()
    return torch.autocast(device_type=device.type, dtype=getattr(torch, kind))


def recompute_activations(model: Any) -> None:
    """Enable gradient checkpointing: every layer of a transformers model stores its input only.

    transformers renamed the method within release 5, with another keyword, and removes the old name in release 6.
    """
    settings = {"use_reentrant": False}  # the reentrant kind ignores inputs that need no gradient, such as embedded ids
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)


def freeze_vision(model: Any) -> None:
    """Take the vision tower, its merger included, out of training, in place.

    Raises:
        ConfigError: the model has none.
    """
    if not has_vision(model):
        raise ConfigError(
            f"model.freeze_vision freezes the vision tower of a vision-language model, and {type(model).__name__} has none: leave "
            "it false"
        )
    model.model.visual.requires_grad_(False)
