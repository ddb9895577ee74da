"""Settings for training a success model: ``kind: success_model`` in the config of creditflow train."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from creditflow.envs.errors import ConfigError
from creditflow.train.annotate.success.encoding import TextConfig
from creditflow.train.settings.bounds import require_seed
from creditflow.train.settings.model import ModelConfig
from creditflow.train.settings.schema import CheckpointConfig, LogConfig
from creditflow.train.settings.update import OptimizerConfig

__all__ = ["KIND", "SuccessDataConfig", "SuccessLossConfig", "SuccessTrainConfig"]

KIND = "success_model"


@dataclass(frozen=True, kw_only=True)
class SuccessDataConfig:
    """The training data.

    Attributes:
        log: a trajectory log with texts.
        labels: labels of that log, as ``creditflow data label`` writes them.
        valid: fraction of the *tasks* for validation, in [0, 1).
    """

    log: str
    labels: str
    valid: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 <= self.valid < 1.0:
            raise ConfigError(f"data.valid must lie in [0, 1), got {self.valid}")


@dataclass(frozen=True, kw_only=True)
class SuccessLossConfig:
    """The loss of a success model.

    Attributes:
        kind: "paper" (eqs. 8 to 10) or "hazard" (released).
        pivot_weight: λ_g of eq. 10. The loss of a pivot is log(1 + exp(−r)), with r = log f(t) − log f(t−1), in place of
            −log g_t, which is undefined for g ≤ 0.
        non_pivot_weight: weight of the same penalty with −r on turns that are not pivots, which the paper leaves to the
            outcome. 0 in the paper.
        negative_weight: weight of failed samples ("hazard").
        monotonicity_weight: weight of the released monotonicity hinge ("hazard"), here between turns; the released code
            compares neighbouring tokens.
    """

    kind: Literal["paper", "hazard"] = "paper"
    pivot_weight: float = 1.0
    non_pivot_weight: float = 0.0
    negative_weight: float = 1.0
    monotonicity_weight: float = 0.0

    def __post_init__(self) -> None:
        weights = (self.pivot_weight, self.non_pivot_weight, self.negative_weight, self.monotonicity_weight)
        if min(weights) < 0.0:
            raise ConfigError(f"the weights of a success model's loss must not be negative: {self}")


@dataclass(frozen=True, kw_only=True)
class SuccessTrainConfig:
    """One training run of a success model.

    Attributes:
        kind: "success_model"; distinguishes this config from that of a policy.
        out: run folder; the model is written to ``out/model``.
        seed: seed of weights, split and order.
        device, threads: as for a policy.
        steps, batch: number of optimiser steps, and episodes per step.
        batch_tokens: tokens per micro-batch, padding included.
        loss: see ``SuccessLossConfig``.
    """

    kind: Literal["success_model"]
    out: str
    data: SuccessDataConfig
    seed: int = 0
    device: str = "auto"
    threads: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    text: TextConfig = field(default_factory=TextConfig)
    loss: SuccessLossConfig = field(default_factory=SuccessLossConfig)
    steps: int = 1000
    batch: int = 16
    batch_tokens: int = 16384
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=5e-6, schedule="cosine", warmup_fraction=0.05)
    )
    checkpoint: CheckpointConfig = field(default_factory=lambda: CheckpointConfig(every=500))
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        require_seed(self)
        if min(self.steps, self.batch, self.batch_tokens) < 1:
            raise ConfigError("steps, batch and batch_tokens must be at least 1")
