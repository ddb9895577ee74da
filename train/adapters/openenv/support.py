"""The release of OpenEnv that the adapter was tested with, which is checked before anything of it is imported."""

from __future__ import annotations

from typing import Final

from creditflow.train.adapters.releases import Releases

__all__ = ["OPENENV"]

OPENENV: Final = Releases("openenv", "OpenEnv", "0.10", "0.11", "answers hostile messages before OpenEnv's routes do")
