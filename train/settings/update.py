"""Settings of SFT, the policy update, its loss and optimiser, and the critic. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from creditflow.envs.errors import ConfigError
from creditflow.train.settings.bounds import require_at_least

__all__ = [
    "CriticConfig",
    "KLKind",
    "LossAggregation",
    "LossConfig",
    "OptimizerConfig",
    "RatioLevel",
    "SftConfig",
    "UpdateConfig",
]

KLKind = Literal["k1", "k2", "k3", "abs"]
# the four kinds of credit schemes, and the sum of token losses over a constant
LossAggregation = Literal["token_mean", "group_token_mean", "trajectory_mean", "turn_mean", "constant"]
RatioLevel = Literal["token", "turn", "sequence"]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW and its learning-rate schedule.

    Attributes:
        lr: peak learning rate.
        schedule: after the warm-up: "constant", or "linear" or "cosine" decay to ``min_lr_fraction`` of the peak.
        warmup_fraction: fraction of all steps for the linear warm-up, in [0, 1).
        min_lr_fraction: final learning rate as a fraction of the peak, in [0, 1].
        betas, eps: parameters of AdamW.
        weight_decay: weight decay of AdamW; not applied to biases and norms.
        grad_clip: maximum gradient norm; 0 does not clip.
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
                "lr must be positive, warmup_fraction in [0, 1) and min_lr_fraction in [0, 1]; got "
                f"{self.lr}, {self.warmup_fraction}, {self.min_lr_fraction}"
            )
        if not all(0.0 <= beta < 1.0 for beta in self.betas) or not self.eps > 0.0:
            raise ConfigError(f"betas must lie in [0, 1) and eps be positive, got {list(self.betas)} and {self.eps}")
        require_at_least(self, 0, "weight_decay", "grad_clip")


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """The policy loss.

    Attributes:
        ratio: importance ratio of each "token", or one for all tokens of a "turn" (StepPO) or of a "sequence", a
            trajectory in one row (GSPO): exp of the mean log-ratio over its target tokens. Such ratios stay much closer
            to 1, so their bounds are smaller: GSPO and StepPO clip at 3e-4 and 4e-4.
        clip_low: the ratio is clipped from below at 1 − clip_low.
        clip_high: the ratio is clipped from above at 1 + clip_high.
        dual_clip: bound of the loss for negative advantages, as a multiple (> 1) of |advantage|; 0 for none.
        kl_weight: weight of the KL estimate to the reference policy; 0 needs no reference.
        kl_kind: "k1" (log-ratio), "k2" (half its square), "k3" (its low-variance form, never negative) or "abs".
        kl_in: "loss", or "reward": subtract it from each turn's reward before credit is assigned.
        entropy_weight: weight of the entropy bonus.
        importance_cap: truncated importance sampling: weight each token's loss by min(trainer / sampler probability,
            cap); 0 for none.
        aggregation: how token losses are averaged. "auto" follows the credit scheme; the next four are the kinds that
            schemes use (``token_weights``); "constant" (Dr. GRPO) divides the sum by the number of trajectories ×
            ``normaliser``, so that a token does not count less in a longer response.
        normaliser: tokens per trajectory for "constant", such as the maximum length of a response.
    """

    ratio: RatioLevel = "token"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float = 3.0
    kl_weight: float = 0.0
    kl_kind: KLKind = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    entropy_weight: float = 0.0
    importance_cap: float = 2.0
    aggregation: Literal["auto", LossAggregation] = "auto"
    normaliser: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.clip_low < 1.0 or not self.clip_high > 0.0:
            raise ConfigError(
                f"clip_low must lie in (0, 1) and clip_high be positive, got {self.clip_low}, {self.clip_high}"
            )
        if self.dual_clip != 0.0 and self.dual_clip <= 1.0:
            raise ConfigError(f"dual_clip must be 0 (none) or more than 1, got {self.dual_clip}")
        if self.kl_weight < 0.0 or self.importance_cap < 0.0:
            raise ConfigError(
                f"kl_weight and importance_cap must not be negative, got {self.kl_weight} and {self.importance_cap}"
            )
        require_at_least(self, 0, "normaliser")
        if (self.aggregation == "constant") != (self.normaliser > 0):
            raise ConfigError(
                "loss.aggregation: constant divides by loss.normaliser, a number of tokens per trajectory, and nothing else "
                f"does; got {self.aggregation} with normaliser {self.normaliser}"
            )


@dataclass(frozen=True, kw_only=True)
class SftConfig:
    """Supervised fine-tuning (SFT) on rollouts of a scripted expert or on recorded ones.

    Attributes:
        episodes: number of demonstrations; 0 skips SFT.
        log: trajectory log (.jsonl, .jsonl.gz) with demonstrations to use instead of the expert's. Convert other
            formats, such as Parquet, with ``creditflow data import``. Invalid turns are not imitated.
        replay: replay the episodes of the log in the run's environment with the run's prompts. If false, they are
            imitated as written, with observations as user messages, so that chats from any other environment can be
            used; episodes longer than ``prompting.max_context`` are rejected.
        min_score: reject recorded episodes with a lower score.
        noise: probability that the expert takes a random action instead of an optimal one.
        imitate_noise: imitate the random actions too.
        keep: "all" episodes, or only those with "success".
        steps: optimiser steps.
        batch_tokens: tokens per step.
        optimizer: learning rate and schedule.
    """

    episodes: int = 0
    log: str = ""
    replay: bool = True
    min_score: float = 0.0
    noise: float = 0.0
    imitate_noise: bool = True
    keep: Literal["all", "success"] = "all"
    steps: int = 200
    batch_tokens: int = 8192
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=1e-3, schedule="cosine", warmup_fraction=0.05)
    )

    def __post_init__(self) -> None:
        require_at_least(self, 0, "episodes", "min_score", "steps")
        require_at_least(self, 1, "batch_tokens")
        if not 0.0 <= self.noise <= 1.0:
            raise ConfigError(f"noise must lie in [0, 1], got {self.noise}")
        if not (self.replay or self.log):
            raise ConfigError("sft.replay=false imitates the episodes of a log as they were written: set sft.log")


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """The critic that writes ``value.critic``, for schemes that need it.

    Attributes:
        kind: "none"; "shared", a value head on the policy's last hidden state; "separate", a network of its own,
            initialised from the policy at the start of RL.
        lr: learning rate of the critic's own weights (of a shared critic, its head), constant after the warm-up.
        warmup_fraction: fraction of all iterations for the warm-up, in [0, 1).
        weight: weight of a shared critic's value loss relative to the policy loss.
        clip: clipping range of the value around its value at rollout time; 0 does not clip.
        grad_clip: maximum gradient norm of the critic's own weights; 0 does not clip.
    """

    kind: Literal["none", "shared", "separate"] = "none"
    lr: float = 1e-5
    warmup_fraction: float = 0.0
    weight: float = 0.5
    clip: float = 0.2
    grad_clip: float = 1.0

    def __post_init__(self) -> None:
        if not self.lr > 0.0 or min(self.weight, self.clip, self.grad_clip) < 0.0:
            raise ConfigError(
                "lr must be positive, weight, clip and grad_clip not negative; got "
                f"{self.lr}, {self.weight}, {self.clip}, {self.grad_clip}"
            )
        if not 0.0 <= self.warmup_fraction < 1.0:
            raise ConfigError(f"critic.warmup_fraction must lie in [0, 1), got {self.warmup_fraction}")


@dataclass(frozen=True, kw_only=True)
class UpdateConfig:
    """The policy update.

    Attributes:
        iterations: number of rollouts and updates; 0 stops after SFT.
        epochs: passes over the rows of an iteration.
        minibatches: optimiser steps per epoch. Trajectories are shuffled and split; the rows of a trajectory stay
            together.
        minibatch_size: size of a minibatch, instead of ``minibatches``; 0 for none. An epoch has the nearest whole
            number of minibatches, of nearly equal size, so a small batch takes fewer steps, not smaller ones. Rows are
            shuffled one by one, or by trajectory if that is the unit.
        minibatch_unit: unit of ``minibatch_size``; a token is a target token.
        row_layout: "trajectory" (one row per trajectory) or "turn" (one row per turn).
        packing: "packed": a micro-batch is one sequence without padding, and computes prefixes that rows share once.
            "padded": rows are padded to equal length, for models whose attention does not support packing.
        batch_tokens: tokens per micro-batch.
        logits_chunk: number of target tokens whose logits are in memory at the same time.
        old_logprobs: log-probabilities in the denominator of the importance ratio: the "trainer"'s before the update
            (the ratio is then exactly 1 at first), or the "sampler"'s, which makes ``importance_cap`` unnecessary.
        loss: settings of the loss.
        optimizer: settings of the optimiser.
    """

    iterations: int = 0
    epochs: int = 1
    minibatches: int = 1
    minibatch_size: int = 0
    minibatch_unit: Literal["trajectory", "turn", "token"] = "turn"
    row_layout: Literal["trajectory", "turn"] = "trajectory"
    packing: Literal["padded", "packed"] = "packed"
    batch_tokens: int = 16384
    logits_chunk: int = 1024
    old_logprobs: Literal["trainer", "sampler"] = "trainer"
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        if min(self.epochs, self.minibatches, self.batch_tokens, self.logits_chunk) < 1 or self.iterations < 0:
            raise ConfigError(
                "epochs, minibatches, batch_tokens and logits_chunk must be at least 1, iterations at least 0; got "
                f"{self.epochs}, {self.minibatches}, {self.batch_tokens}, {self.logits_chunk}, {self.iterations}"
            )
        if self.minibatch_size < 0 or (self.minibatch_size and self.minibatches != 1):
            raise ConfigError(
                "minibatches are set by their number (minibatches) or by their size (minibatch_size), not by both; got "
                f"minibatches {self.minibatches} and minibatch_size {self.minibatch_size}"
            )

    @property
    def one_step(self) -> bool:
        """Whether an iteration is a single optimiser step, whatever the rollouts are."""
        return self.epochs == 1 and self.minibatches == 1 and not self.minibatch_size
