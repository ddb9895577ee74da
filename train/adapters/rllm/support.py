"""The releases of rLLM that this adapter was tested with."""

from __future__ import annotations

from typing import Final

from creditflow.train.adapters.releases import Releases

__all__ = ["RLLM"]

RLLM: Final = Releases("rllm", "rLLM", "0.3", "0.4", "hooks into its unified trainer")
