"""Everything that the training of a success model is told: ``kind: success_model`` in the config of creditflow train."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from creditflow.envs.errors import ConfigError
from creditflow.train.annotate.success.encoding import TextConfig
from creditflow.train.settings.model import ModelConfig
from creditflow.train.settings.schema import CheckpointConfig, LogConfig
from creditflow.train.settings.update import OptimizerConfig

__all__ = ["KIND", "SuccessDataConfig", "SuccessLossConfig", "SuccessTrainConfig"]

KIND = "success_model"


@dataclass(frozen=True, kw_only=True)
class SuccessDataConfig:
    """What is learned from.

    Attributes:
        log: a trajectory log with texts.
        labels: of that log, as ``creditflow data label`` writes them.
        valid: share of the *tasks* that are kept for validation, in [0, 1).
        too_long: an episode that is too long for the model is an error ("reject") or left out and counted ("skip").
    """

    log: str
    labels: str
    valid: float = 0.1
    too_long: Literal["reject", "skip"] = "reject"

    def __post_init__(self) -> None:
        if not 0.0 <= self.valid < 1.0:
            raise ConfigError(f"data.valid must lie in [0, 1), got {self.valid}")


@dataclass(frozen=True, kw_only=True)
class SuccessLossConfig:
    """The loss of a success model.

    Attributes:
        kind: "paper" (eqs. 8 to 10) or "hazard" (released).
        pivot_loss: surrogate for −log g_t on pivots, which is undefined for g ≤ 0. With r = log f(t) − log f(t−1):
            "softplus" is log(1 + exp(−r)), "hinge" max(0, margin − r). Both fall as r rises, and stay finite.
        margin: of the hinge, in nats. The margin of the released monotonicity hinge is always 0.05 (probability).
        pivot_weight: λ_g of eq. 10.
        every_turn_weight: weight of the outcome's cross-entropy at *every* turn end, not only the last, which makes f(t)
            the calibrated probability that eq. 2 defines. 0 in the paper.
        non_pivot_weight: weight of the same penalty with −r on turns that are not pivots, which the paper leaves to the
            outcome. 0 in the paper.
        negative_weight: weight of failed samples ("hazard").
        monotonicity_weight: weight of the released monotonicity hinge ("hazard"), here between turns; the released code
            compares neighbouring tokens.
    """

    kind: Literal["paper", "hazard"] = "paper"
    pivot_loss: Literal["softplus", "hinge"] = "softplus"
    margin: float = 0.5
    pivot_weight: float = 1.0
    every_turn_weight: float = 0.0
    non_pivot_weight: float = 0.0
    negative_weight: float = 1.0
    monotonicity_weight: float = 0.0

    def __post_init__(self) -> None:
        weights = (
            "pivot_weight",
            "every_turn_weight",
            "non_pivot_weight",
            "negative_weight",
            "monotonicity_weight",
            "margin",
        )
        if any(getattr(self, name) < 0.0 for name in weights):
            raise ConfigError(f"the weights of a success model's loss and its margin must not be negative: {self}")


@dataclass(frozen=True, kw_only=True)
class SuccessTrainConfig:
    """One training run of a success model.

    Attributes:
        kind: "success_model"; tells this config from a policy's.
        out: run folder; the model is written to ``out/model``.
        seed: of weights, split and order.
        device, threads: as for a policy.
        steps, batch: optimiser steps, episodes in each.
        batch_tokens: tokens per micro-batch, padding included.
        language_weight: weight of next-token prediction over all tokens beside the loss; helps models made from
            nothing to learn what names are.
        head: how z is read. "place": from the last token of a turn. "turns": a turn's tokens together say by how much z
            rises, and z is the sum of all turns so far; for models made from nothing. Of kind "paper" alone.
        calibrate: whether the log odds z are made a·z + b at the end, a and b fitted to the outcomes of the validation
            tasks. Of kind "paper" alone.
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
    head: Literal["place", "turns"] = "place"
    calibrate: bool = False
    language_weight: float = 0.0
    steps: int = 1000
    batch: int = 16
    batch_tokens: int = 16384
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=5e-6, schedule="cosine", warmup_fraction=0.05)
    )
    checkpoint: CheckpointConfig = field(default_factory=lambda: CheckpointConfig(every=500))
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.batch_tokens) < 1 or self.language_weight < 0:
            raise ConfigError("steps, batch and batch_tokens must be at least 1, language_weight not negative")
        if self.loss.kind != "paper" and (self.head != "place" or self.calibrate):
            raise ConfigError('head: turns and calibrate are for the kind of loss "paper", whose z are log odds')
        if self.calibrate and not self.data.valid:
            raise ConfigError("calibrate fits to the validation tasks: give data.valid a share of them")
