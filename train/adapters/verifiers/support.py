"""The releases of verifiers that this adapter was tested with."""

from __future__ import annotations

from typing import Final

from creditflow.train.adapters.releases import Releases

__all__ = ["VERIFIERS"]

VERIFIERS: Final = Releases("verifiers", "verifiers", "0.4", "0.5", "plugs into its v1 interfaces")
