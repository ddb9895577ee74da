"""AdamW and its learning-rate schedules; a schedule is a pure function of the step, so nothing of it is saved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch

from creditflow.envs.errors import ConfigError

__all__ = ["OptimizerConfig", "learning_rate", "make_optimizer", "set_learning_rate"]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """How weights move.

    Attributes:
        lr: peak learning rate.
        schedule: after warm-up "constant", "linear" or "cosine" down to ``min_lr_fraction`` of the peak.
        warmup_fraction: share of all steps, in [0, 1).
        min_lr_fraction: share of the peak, in [0, 1].
        betas, eps, weight_decay: of AdamW; biases and norms are not decayed.
        grad_clip: largest gradient norm; 0 for none.
    """

    lr: float = 1e-6
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_fraction: float = 0.0
    min_lr_fraction: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    grad_clip: float = 1.0

    def __post_init__(self) -> None:
        if not self.lr > 0.0 or not 0.0 <= self.warmup_fraction < 1.0 or not 0.0 <= self.min_lr_fraction <= 1.0:
            raise ConfigError(
                f"lr must be positive, warmup_fraction in [0, 1) and min_lr_fraction in [0, 1]; got {self.lr}, {self.warmup_fraction}, {self.min_lr_fraction}"
            )


def learning_rate(config: OptimizerConfig, step: int, total: int) -> float:
    """Learning rate of step 0 ≤ step < total."""
    warm = int(config.warmup_fraction * total)
    if step < warm:
        return config.lr * (step + 1) / (warm + 1)
    if config.schedule == "constant":
        return config.lr
    done = (step - warm) / max(1, total - warm)
    shape = 1.0 - done if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return config.lr * (config.min_lr_fraction + (1.0 - config.min_lr_fraction) * shape)


def make_optimizer(model: Any, config: OptimizerConfig, critic: Any = None, lr_critic: float = 0.0) -> Any:
    """AdamW over the fp32 weights of a policy and perhaps its critic: matrices decayed, vectors not.

    One optimiser holds both, so that a checkpoint has one set of moments; ``set_learning_rate`` tells them apart.
    """
    groups: list[dict[str, Any]] = []
    for role, module, lr in (("policy", model, config.lr), ("critic", critic, lr_critic)):
        parameters = [] if module is None else [p for p in module.parameters() if p.requires_grad]
        decayed, plain = [p for p in parameters if p.ndim >= 2], [p for p in parameters if p.ndim < 2]
        if parameters:
            groups.append({"params": decayed, "weight_decay": config.weight_decay, "lr": lr, "role": role})
            groups.append({"params": plain, "weight_decay": 0.0, "lr": lr, "role": role})
    fused = groups[0]["params"][0].device.type == "cuda"
    return torch.optim.AdamW(groups, lr=config.lr, betas=tuple(config.betas), eps=config.eps, fused=fused)


def set_learning_rate(optimizer: Any, value: float, role: str = "policy") -> None:
    """Set it for all parameters of a role."""
    for group in optimizer.param_groups:
        if group.get("role", "policy") == role:
            group["lr"] = value
