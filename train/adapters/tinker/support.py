"""The releases of tinker-cookbook that this adapter was tested with."""

from __future__ import annotations

from typing import Final

from creditflow.train.adapters.releases import Releases

__all__ = ["TINKER"]

TINKER: Final = Releases(
    "tinker-cookbook", "tinker-cookbook", "0.6.1", "0.7", "replaces a function of its training loop"
)
