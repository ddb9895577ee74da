"""Runs of the trainer: their weights, and their metrics without times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.trainer import Trainer

Make = Callable[..., Trainer]
TIMES = ("seconds", "speed")


def weights(run: Trainer) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def metrics(run: Trainer) -> list[dict[str, Any]]:
    """Records without timings."""
    return [{k: v for k, v in r.items() if not k.startswith(TIMES)} for r in read_metrics(run.logger.path)]
