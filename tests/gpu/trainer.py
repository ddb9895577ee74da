"""Iterations of the trainer after a short imitation, on Sokoban with a model of 18 million parameters."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gpu.speed import sizes_of

from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import TrainConfig

__all__ = ["trainer_iterations"]


def trainer_iterations(folder: Path, toy: bool, results: Mapping[str, Any]) -> dict[str, Any]:
    """Some iterations of the trainer after a short SFT: median seconds of their parts, tokens per second, fraction of the limit.

    The first iteration, in which libraries are loaded and memory is taken, is not counted. Boxes on targets are rewarded, so that
    groups have a signal early. A token is read once in the rollout, and forward and backward in the update.

    Args:
        folder: folder of the run.
        toy: whether to use toy sizes.
        results: the contents of the results file, with the device's limits if they are measured.
    """
    from creditflow.train.trainer import Trainer

    count = 2 if toy else 4
    shutil.rmtree(folder / "speed-0", ignore_errors=True)
    sizes = ("sft.steps=30",) if toy else ("sft.steps=150", "sft.episodes=1000")
    few = (*sizes, f"update.iterations={count}", "evaluation.panel=", "evaluation.final_panel=")
    settings = _settings(folder / "speed-0", toy, "env.options.reward=gym_sokoban", *few)
    Trainer(settings).run()
    log = read_metrics(Path(settings.out) / "metrics.jsonl")
    records = [record for record in log if record["kind"] == "iteration"][1:]

    def median(name: str) -> float:
        return float(np.median([record[name] or 0.0 for record in records]))

    parts = {name: median(name) for name in records[0] if name.startswith("seconds")}
    tokens = median("prompt_tokens") + median("completion_tokens")
    found = {f"iteration_{name}": value for name, value in parts.items()}
    found |= {
        "tokens_per_second": tokens / parts["seconds"],
        "episodes_per_second": median("episodes") / parts["seconds"],
    }
    limit = results.get("checks", {}).get("speed/ceilings", {}).get("flops_bfloat16")
    parameters = results.get("checks", {}).get("speed/sft", {}).get("parameters")
    if limit and parameters:  # of nearly the same network, which has a smaller vocabulary
        found["matmul_ceiling_fraction"] = 8.0 * parameters * found["tokens_per_second"] / limit
    return found


def _settings(out: Path, toy: bool, *more: str) -> TrainConfig:
    sizes = sizes_of(toy)
    data: dict[str, Any] = {
        "out": str(out),
        "seed": 0,
        "device": "cpu" if toy else "cuda",
        "threads": 1 if toy else 0,
        "env": {
            "name": "sokoban",
            "options": {
                "generator": {"height": 8, "width": 8, "boxes": 2, "min_length": 3, "max_length": 20},
                "max_steps": 30,
                "symbols": "ascii",
                "separator": "",
            },
        },
        "tasks": {"count": 4000, "exclude": ["standard-v1:valid", "standard-v1:test"]},
        "model": {
            "autocast": "bfloat16",
            "scratch": {
                "hidden": sizes.hidden, "layers": sizes.layers, "heads": sizes.heads, "kv_heads": sizes.kv_heads,
                "intermediate": sizes.intermediate, "vocabulary": 1024, "init": sizes.init,
                "pattern": " ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
            },
        },
        "prompting": {"prompt": "places-v1", "dialect": "bare", "history": "window", "window": 0},
        "sft": {
            "episodes": 3000, "noise": 0.3, "steps": 1500, "batch_tokens": 8192,
            "optimizer": {"lr": 6e-4, "schedule": "cosine", "warmup_fraction": 0.05, "betas": [0.9, 0.95]},
        },
        "rollout": {"tasks": 64, "group_size": 8, "max_new_tokens": 3, "dtype": "bfloat16"},
        "update": {
            "iterations": 100, "batch_tokens": 131072, "logits_chunk": 8192, "loss": {"clip_high": 0.28},
            "optimizer": {"lr": 1e-4, "betas": [0.9, 0.95], "warmup_fraction": 0.05},
        },
        "checkpoint": {"every": 20, "keep": 1},
    }  # fmt: skip
    if toy:
        toy_settings = (
            "env.options.max_steps=6", "tasks.count=24",
            "env.options.generator={height: 6, width: 6, boxes: 1, min_length: 2, max_length: 4}",
            "sft.episodes=60", "sft.steps=60", "sft.batch_tokens=600", "sft.optimizer.lr=3e-3", "rollout.tasks=4",
            "rollout.group_size=4", "update.iterations=2", "evaluation.limit=2", "evaluation.samples=1",
            "evaluation.every=1", "evaluation.panel=small-v1:valid",
            "evaluation.final_panel=", "checkpoint.every=1",
        )  # fmt: skip
        data = apply_overrides(data, toy_settings)
    return read_dataclass(TrainConfig, apply_overrides(data, more))
