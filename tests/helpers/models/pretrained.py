"""A small "pretrained" model in a folder, for tests of settings that need ``model.path``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

__all__ = ["PATTERN", "pretrained_folder"]

PATTERN = " ?[^a-z ][a-z][0-9]|[a-z]+| ?."


def pretrained_folder(folder: Path, *, seed: int = 3, **sizes: Any) -> Path:
    """Write a model and its tokenizer."""
    config = ScratchConfig(
        **{"hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128, "vocabulary": 280, "init": 0.1,
           "pattern": PATTERN, **sizes}
    )  # fmt: skip
    tokenizer = build_tokenizer(["Pa1 Oa2 Xa3 up down left right"] * 4, config)
    build_model(config, tokenizer, seed=seed).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
