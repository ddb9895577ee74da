"""The train tier: a tiny model, its tokenizer and settings that everything here shares. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HAVE_TORCH = find_spec("torch") is not None and find_spec("transformers") is not None
collect_ignore_glob = [] if HAVE_TORCH else ["test_*.py"]

LEVELS = ("######\n#@ $.#\n#    #\n######", "#####\n#   #\n#.$@#\n#####", "#####\n#@  #\n#$  #\n#.  #\n#####")


def pytest_report_header() -> str:
    return "train tier: torch is there" if HAVE_TORCH else "train tier: skipped, torch or transformers is not installed"


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Plain settings of a run that takes a second or two."""
    levels = tmp_path / "levels.txt"
    levels.write_text("\n\n".join(LEVELS) + "\n", encoding="ascii")
    return {
        "out": str(tmp_path / "run"),
        "seed": 8,
        "device": "cpu",
        "threads": 1,
        "env": {"name": "sokoban", "options": {"levels": str(levels), "max_steps": 5, "symbols": "ascii"}},
        "model": {
            "scratch": {
                "hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128, "vocabulary": 280, "init": 0.1,
                "pattern": " ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
            }
        },
        "prompting": {"prompt": "places-v1", "dialect": "bare", "history": "append"},
        "sft": {"episodes": 24, "steps": 6, "batch_tokens": 200, "noise": 0.8, "optimizer": {"lr": 4e-3}},
        "rollout": {"tasks": 2, "group_size": 4, "max_new_tokens": 3},
        "credit": {"scheme": "gigpo"},
        "update": {"iterations": 3, "optimizer": {"lr": 1e-3}},
        "checkpoint": {"every": 1, "keep": 0},
    }  # fmt: skip


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
