"""Runs of the trainer in one or several ranks, compared by their checkpoints and metrics."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from helpers.models.ranks import Outcome, in_ranks
from safetensors.torch import load_file

from creditflow.train.distributed.world import ALONE, World
from creditflow.train.policy.checkpoint import latest_checkpoint
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import TrainConfig
from creditflow.train.trainer import Trainer


def trainer(config: dict[str, Any], *overrides: str, world: World = ALONE, resume: bool = False) -> Trainer:
    """A silent trainer."""
    settings = read_dataclass(TrainConfig, apply_overrides(config, overrides))
    return Trainer(settings, resume=resume, stream=io.StringIO(), world=world)


def train(config: dict[str, Any], *overrides: str, resume: bool = False) -> Path:
    """A whole run in this process; returns its folder."""
    run = trainer(config, *overrides, resume=resume)
    run.run()
    return run.folder


def train_in_ranks(
    size: int, config: dict[str, Any], *overrides: str, shard: bool = False, resume: bool = False
) -> list[Outcome]:
    """A whole run in several ranks."""

    def work(world: World) -> None:
        trainer(config, *overrides, world=world, resume=resume).run()

    return in_ranks(size, work, shard=shard)


def state(folder: Path) -> dict[str, Any]:
    """The tensors of the latest checkpoint: weights and moments by name."""
    last = latest_checkpoint(folder / "checkpoints")
    assert last is not None
    return {
        f"{file}:{name}": tensor
        for file in ("weights", "optimiser")
        for name, tensor in load_file(last / f"{file}.safetensors").items()
    }


def largest_difference(a: Path, b: Path) -> float:
    """The largest difference of two runs' tensors, relative to the largest number in each tensor."""
    left, right = state(a), state(b)
    assert left.keys() == right.keys()
    return max(float((left[n] - right[n]).abs().max() / left[n].abs().max().clamp(min=1e-12)) for n in left)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Records without timings, and without the number of tokens computed: ranks share no prefixes."""
    names = ("seconds", "speed", "tokens_computed")
    return [{k: v for k, v in r.items() if not k.startswith(names)} for r in read_metrics(folder / "metrics.jsonl")]


def assert_close_metrics(a: Path, b: Path, tolerance: float) -> None:
    """Metrics of two runs: the same records, numbers equal up to rounding."""
    left, right = metrics(a), metrics(b)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, float) and isinstance(other[name], float):
                np.testing.assert_allclose(other[name], value, rtol=tolerance, atol=tolerance, err_msg=name)
            else:
                assert other[name] == value, name
