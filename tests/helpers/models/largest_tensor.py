"""The largest tensor that a computation makes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["LargestTensor"]


class LargestTensor(TorchDispatchMode):
    """Numbers in the largest tensor that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else (out,):
            if isinstance(one, torch.Tensor):
                self.numbers = max(self.numbers, one.numel())
        return out
