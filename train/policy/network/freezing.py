"""A vision tower that is not trained: the language model learns to use what it reports."""

from __future__ import annotations

from typing import Any

from creditflow.agents.language_model.models.vision import has_vision
from creditflow.envs.errors import ConfigError

__all__ = ["freeze_vision"]


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
