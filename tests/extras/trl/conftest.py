"""The TRL tier: without TRL every test here is skipped with the reason; ``--require trl`` makes that a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def trl_is_there() -> None:
    pytest.importorskip("trl", reason="TRL is not installed: pip install 'creditflow[trl]'")
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def arguments(tmp_path: Path) -> Callable[..., Any]:
    """TRL's settings of a run on the CPU with minimal output."""
    from trl import GRPOConfig

    def make(**changes: Any) -> GRPOConfig:
        values: dict[str, Any] = {
            "output_dir": str(tmp_path / "run"), "use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True,
            "save_strategy": "no", "logging_steps": 1, "seed": 5, "gradient_checkpointing": False,
        }  # fmt: skip
        return GRPOConfig(**values | changes)

    return make
