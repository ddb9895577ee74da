"""The releases of TorchRL that the adapter was tested with."""

from __future__ import annotations

from typing import Final

from creditflow.train.adapters.releases import Releases

__all__ = ["TORCHRL"]

TORCHRL: Final = Releases("torchrl", "TorchRL", "0.14", "0.15", "reads info through its info readers")
