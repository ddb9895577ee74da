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
        schedule: after the warm-up "constant", or "linear" or "cosine" decay to ``min_lr_fraction`` of the peak.
        warmup_fraction: fraction of all steps in which the learning rate increases, in [0, 1).
        min_lr_fraction: final learning rate as a fraction of the peak, in [0, 1].
        betas, eps, weight_decay: parameters of AdamW; biases and norms are not decayed.
        grad_clip: largest norm of the gradient; 0 does not clip.
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
    """The loss of the policy.

    Attributes:
        ratio: importance ratio of each "token"; or one for all tokens of a "turn" (StepPO, GAGPO) or of a "sequence", a
            trajectory in one row (GSPO): exp of the mean log-ratio over its target tokens. Such ratios stay much closer
            to 1, so their bounds are smaller: GSPO and StepPO clip at 3e-4 and 4e-4.
        clip_low, clip_high: the ratio is clipped to [1 − clip_low, 1 + clip_high].
        dual_clip: for negative advantages the loss is at most this times |advantage|; 0 for none, else > 1.
        kl_weight: weight of the KL estimate to the reference policy; 0 needs no reference.
        kl_kind: "k1" (log-ratio), "k2" (half its square), "k3" (its low-variance form, never negative), "abs".
        kl_in: "loss", or "reward": then it is subtracted from each turn's reward before credit is assigned.
        reference_dtype: type of the reference policy's weights: "same" as the policy's, or "bfloat16", half of float32's memory; its
            log-probabilities then differ by rounding. With an adapter the reference is the base, which has a type already.
        entropy_weight: weight of the entropy bonus.
        importance_cap: truncated importance sampling: each token's loss is weighted by min(trainer / sampler
            probability, cap); 0 for none.
        aggregation: "auto" follows the credit scheme; one of its four kinds (``token_weights``); or "constant" (Dr. GRPO): the sum of token
            losses over the number of trajectories × ``normaliser``, so that no token counts less in a longer response.
        normaliser: tokens per trajectory for "constant", such as the longest response.
    """

    ratio: RatioLevel = "token"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float = 3.0
    kl_weight: float = 0.0
    kl_kind: KLKind = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    reference_dtype: Literal["same", "bfloat16"] = "same"
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
    """Supervised fine-tuning (SFT) on rollouts of a scripted expert, or on recorded ones.

    Attributes:
        episodes: number of demonstrations; 0 skips SFT.
        log: trajectory log (.jsonl, .jsonl.gz) with demonstrations, instead of the expert's. Other formats, Parquet among them,
            become one by ``creditflow data import``. Invalid turns are not imitated.
        replay: whether the episodes of the log are repeated in the run's environment with the run's prompts. If not, they are
            imitated as they were written, observations as messages of a user, so that chats of agents in any other environment
            serve; those with more tokens than ``prompting.max_context`` are rejected.
        min_score: recorded episodes with a lower score are rejected.
        noise: probability that the expert takes a random action instead of an optimal one.
        imitate_noise: whether random actions are imitated too.
        keep: "all" episodes, or those with "success" only.
        steps: optimiser steps.
        batch_tokens: tokens per step.
        observation_weight: loss weight of observation tokens relative to action tokens.
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
    observation_weight: float = 0.0
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=1e-3, schedule="cosine", warmup_fraction=0.05)
    )

    def __post_init__(self) -> None:
        require_at_least(self, 0, "episodes", "min_score", "steps", "observation_weight")
        require_at_least(self, 1, "batch_tokens")
        if not 0.0 <= self.noise <= 1.0:
            raise ConfigError(f"noise must lie in [0, 1], got {self.noise}")
        if not (self.replay or self.log):
            raise ConfigError("sft.replay=false imitates the episodes of a log as they were written: set sft.log")


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """The critic that writes ``value.critic``, for schemes that need it.

    Attributes:
        kind: "none"; "shared": a value head on the policy's own last hidden state; "separate": a network of its own,
            initialised from the policy at the start of RL.
        lr: learning rate of the critic's own weights (a shared critic: of its head), constant after the warm-up.
        warmup_fraction: fraction of all iterations in which it increases, in [0, 1).
        weight: weight of a shared critic's value loss, relative to the policy loss.
        detach: stop the gradient of a shared critic's loss at the value head.
        clip: value clip range around the rollout-time value; 0 does not clip.
        grad_clip: largest gradient norm of the critic's own weights; 0 does not clip.
        epochs: optimiser steps of a separate critic per minibatch; the policy takes one.
    """

    kind: Literal["none", "shared", "separate"] = "none"
    lr: float = 1e-5
    warmup_fraction: float = 0.0
    weight: float = 0.5
    detach: bool = False
    clip: float = 0.2
    grad_clip: float = 1.0
    epochs: int = 1

    def __post_init__(self) -> None:
        if not self.lr > 0.0 or min(self.weight, self.clip, self.grad_clip) < 0.0 or self.epochs < 1:
            raise ConfigError(
                "lr must be positive, weight, clip and grad_clip not negative, epochs at least 1; got "
                f"{self.lr}, {self.weight}, {self.clip}, {self.grad_clip}, {self.epochs}"
            )
        if not 0.0 <= self.warmup_fraction < 1.0:
            raise ConfigError(f"critic.warmup_fraction must lie in [0, 1), got {self.warmup_fraction}")
        if self.epochs > 1 and self.kind != "separate":
            raise ConfigError(
                f"only a separate critic can take more epochs than the policy: use kind=separate, got kind={self.kind}"
            )


@dataclass(frozen=True, kw_only=True)
class UpdateConfig:
    """The policy update.

    Attributes:
        iterations: rounds of rollout and update; 0 stops after SFT.
        epochs: passes over each iteration's rows.
        minibatches: optimiser steps per epoch; trajectories are shuffled and split, rows of one trajectory stay together.
        minibatch_size, minibatch_unit: instead of their number, the size of minibatches in trajectories, turns or target
            tokens; 0 for none. An epoch has the nearest whole number of minibatches, of nearly equal sizes, so that a
            small batch takes fewer steps, not smaller ones. Rows are shuffled one by one, with the unit "trajectory" those
            of one trajectory stay together.
        row_layout: "trajectory" (one row per trajectory) or "turn" (one row per turn).
        packing: micro-batches as one sequence of the rows' distinct prefixes ("packed": no padding, and what rows share is
            computed once), or as rows padded to equal length ("padded": for models whose attention packing lacks).
        batch_tokens: tokens per micro-batch that are computed.
        logits_chunk: number of target tokens whose logits are in memory at once.
        compile: compile what follows the output layer (log-probabilities and entropies, unless the sampler truncates): about a third
            of its time less for vocabularies of tens of thousands (CPU), after half a minute or so of compiling. With a small
            vocabulary an H200 was 8 % slower. Needs a C++ compiler on a CPU; results differ by rounding.
        old_logprobs: "trainer" computes the importance ratio against the trainer's log-probabilities before the update
            (it is exactly 1 at first), "sampler" against those of the sampler, which leaves ``importance_cap`` nothing to do.
        loss, optimizer: settings of both.
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
    compile: bool = False
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
