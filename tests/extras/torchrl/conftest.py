"""The TorchRL tier: without TorchRL every test here is skipped with the reason; ``--require torchrl`` makes that a failure."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def torchrl_is_there() -> None:
    pytest.importorskip("torchrl.envs", reason="TorchRL is not installed: pip install -e '.[torchrl]'")
    import torch

    torch.set_num_threads(1)
