"""The device that models run on."""

from __future__ import annotations

from typing import Any

import torch

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["pick_device"]


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
