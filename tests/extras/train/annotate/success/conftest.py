"""Labelled episodes, and trainers of success models on them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.episodes.look_episodes import episodes, labels_of

from creditflow.train.annotate.success.labels import write_labels
from creditflow.train.annotate.success.settings import SuccessTrainConfig
from creditflow.train.annotate.success.training import SuccessTrainer
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers.records.jsonl import write_jsonl


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    """Settings of a run of a second."""
    groups = episodes()
    write_jsonl(tmp_path / "log.jsonl", groups)
    write_labels(tmp_path / "labels.jsonl", labels_of(groups))
    return {
        "kind": "success_model", "out": str(tmp_path / "run"), "device": "cpu", "threads": 1, "seed": 3,
        "data": {"log": str(tmp_path / "log.jsonl"), "labels": str(tmp_path / "labels.jsonl"), "valid": 0.25},
        "model": {"scratch": {"hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128,
                              "vocabulary": 280, "positions": 128, "init": 0.1}},
        "steps": 4, "batch": 4, "optimizer": {"lr": 3e-3}, "checkpoint": {"every": 2, "keep": 0},
    }  # fmt: skip


@pytest.fixture
def trainer_of() -> Callable[..., SuccessTrainer]:
    def make(data: dict[str, Any], *overrides: str, resume: bool = False) -> SuccessTrainer:
        settings = read_dataclass(SuccessTrainConfig, apply_overrides(data, overrides))
        return SuccessTrainer(settings, resume=resume, stream=io.StringIO())

    return make


# -- annotations ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def folder(data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]) -> Path:
    trainer_of(data).run()
    return Path(data["out"]) / "model"
