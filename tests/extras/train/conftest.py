"""The train tier: a tiny model, its tokenizer and settings that everything here shares. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from helpers.models.toy_config import toy_config

HAVE_TORCH = find_spec("torch") is not None and find_spec("transformers") is not None
collect_ignore_glob = [] if HAVE_TORCH else ["test_*.py"]


def pytest_report_header() -> str:
    return "train tier: torch is there" if HAVE_TORCH else "train tier: skipped, torch or transformers is not installed"


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Plain settings of a run that takes a second or two."""
    return toy_config(tmp_path)


@pytest.fixture
def settings_of() -> Callable[..., Any]:
    """Settings from plain data and ``a.b=c`` overrides."""
    from creditflow.train.settings.overrides import apply_overrides
    from creditflow.train.settings.reading import read_dataclass
    from creditflow.train.settings.schema import TrainConfig

    def make(data: dict[str, Any], *overrides: str) -> TrainConfig:
        return read_dataclass(TrainConfig, apply_overrides(data, overrides))

    return make


@pytest.fixture
def trainer_of(settings_of: Callable[..., Any]) -> Callable[..., Any]:
    """A trainer that keeps its plain lines to itself."""
    import io

    from creditflow.train.trainer import Trainer

    def make(data: dict[str, Any], *overrides: str, resume: bool = False) -> Trainer:
        return Trainer(settings_of(data, *overrides), resume=resume, stream=io.StringIO())

    return make
