"""The distributed tier: two (or four) processes on one machine, joined by gloo. Needs torch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from helpers.models.toy_config import toy_config

collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["test_*.py"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)  # before processes are forked


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Settings whose weights depend smoothly on the gradient.

    With Adam's usual eps, a gradient that is 0 but for rounding moves a weight by the whole learning rate, and two runs that
    differ by rounding differ by as much.
    """
    config = toy_config(tmp_path)
    config["rollout"]["tasks"] = 3
    config["sft"] |= {"episodes": 12, "steps": 3, "optimizer": {"lr": 0.1, "eps": 0.1}}
    config["update"] |= {"iterations": 2, "optimizer": {"lr": 1.0, "eps": 1.0}}
    return config
