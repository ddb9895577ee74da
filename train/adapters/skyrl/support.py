"""The releases of SkyRL-gym that this adapter was tested with."""

from __future__ import annotations

from typing import Final

from creditflow.train.adapters.releases import Releases

__all__ = ["SKYRL_GYM"]

SKYRL_GYM: Final = Releases("skyrl-gym", "SkyRL-gym", "0.4", "0.5", "implements its text environments")
