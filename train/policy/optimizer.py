"""AdamW, its learning-rate schedule and gradient clipping.

The schedule is a pure function of the step, so a checkpoint need not hold it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from creditflow.train.policy.failures import DivergedError
from creditflow.train.settings.update import OptimizerConfig

__all__ = ["OptimizerConfig", "clip_gradient", "learning_rate", "make_optimizer", "set_learning_rate"]


def learning_rate(config: OptimizerConfig, step: int, total: int) -> float:
    """Learning rate of step 0 ≤ step < total."""
    warmup_steps = int(config.warmup_fraction * total)
    if step < warmup_steps:
        return config.lr * (step + 1) / (warmup_steps + 1)
    if config.schedule == "constant":
        return config.lr
    done = (step - warmup_steps) / max(1, total - warmup_steps)
    decay = 1.0 - done if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return config.lr * (config.min_lr_fraction + (1.0 - config.min_lr_fraction) * decay)


def make_optimizer(model: Any, config: OptimizerConfig, critic: Any = None, critic_lr: float = 0.0) -> Any:
    """AdamW over the fp32 weights of a policy and, if given, its critic; matrices are decayed, vectors are not.

    One optimiser holds both, so that a checkpoint has one set of moments; ``set_learning_rate`` selects parameters by role.
    """
    groups: list[dict[str, Any]] = []
    for role, module, lr in (("policy", model, config.lr), ("critic", critic, critic_lr)):
        parameters = [] if module is None else [p for p in module.parameters() if p.requires_grad]
        matrices, vectors = [p for p in parameters if p.ndim >= 2], [p for p in parameters if p.ndim < 2]
        if parameters:
            groups.append({"params": matrices, "weight_decay": config.weight_decay, "lr": lr, "role": role})
            groups.append({"params": vectors, "weight_decay": 0.0, "lr": lr, "role": role})
    fused = groups[0]["params"][0].device.type == "cuda"
    return torch.optim.AdamW(groups, lr=config.lr, betas=tuple(config.betas), eps=config.eps, fused=fused)


def set_learning_rate(optimizer: Any, value: float, role: str = "policy") -> None:
    """Set the learning rate of all parameters of a role."""
    for group in optimizer.param_groups:
        if group.get("role", "policy") == role:
            group["lr"] = value


def clip_gradient(model: Any, max_norm: float) -> float:
    """Clip the gradient of a module to a norm (0 does not clip); returns the norm before clipping.

    Raises:
        DivergedError: the norm is not finite.
    """
    total = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm if max_norm else float("inf"))
    norm = float(total)
    if not np.isfinite(norm):
        raise DivergedError("the gradient is not finite", [])
    return norm
