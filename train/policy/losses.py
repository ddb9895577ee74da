"""Token losses: the clipped clipped_surrogate, KL to a reference, entropy, and truncated importance sampling.

Every function takes flat arrays over target tokens and returns flat arrays; the loss is Σ weight · token loss with the
weights of ``samples.token_weights``. Sources: PPO (Schulman et al. 2017) for the clipped_surrogate, dual clip (Ye et al. 2020),
separate bounds (DAPO, Yu et al. 2025), the k1 and k3 estimators (Schulman 2020), truncated importance sampling between
sampler and trainer (Yao et al. 2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from creditflow.envs.errors import ConfigError

__all__ = ["KLKind", "LossConfig", "TokenLosses", "clipped_surrogate", "kl_estimate", "token_losses", "value_losses"]

KLKind = Literal["k1", "k2", "k3", "abs"]
LARGEST_LOG_RATIO = 20.0  # exp of it is finite in float32; a policy that far away is lost anyway
LARGEST_KL_LOG_RATIO = 10.0


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """What is minimised.

    Attributes:
        clip_low, clip_high: the ratio is clipped to [1 − clip_low, 1 + clip_high].
        dual_clip: for negative advantages the loss is at most this times |advantage|; 0 for none, else > 1.
        kl_weight: of the KL estimate to the reference policy; 0 needs no reference.
        kl_kind: "k1" (log-ratio), "k2" (half its square), "k3" (its low-variance form, never negative), "abs".
        kl_in: "loss", or "reward": then it is taken from each turn's reward before credit is assigned.
        entropy_weight: entropy is rewarded with it.
        importance_cap: truncated importance sampling: each token's loss is weighted by min(trainer / sampler
            probability, cap); 0 for none.
        aggregation: "auto" follows the credit scheme, or one of its three kinds.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float = 3.0
    kl_weight: float = 0.0
    kl_kind: KLKind = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    entropy_weight: float = 0.0
    importance_cap: float = 2.0
    aggregation: Literal["auto", "token_mean", "trajectory_mean", "turn_mean"] = "auto"

    def __post_init__(self) -> None:
        if not 0.0 < self.clip_low < 1.0 or not self.clip_high > 0.0:
            raise ConfigError(
                f"clip_low must lie in (0, 1) and clip_high be positive, got {self.clip_low}, {self.clip_high}"
            )
        if self.dual_clip != 0.0 and self.dual_clip <= 1.0:
            raise ConfigError(f"dual_clip must be 0 (none) or more than 1, got {self.dual_clip}")
        if self.kl_weight < 0.0 or self.importance_cap < 0.0:
            raise ConfigError("kl_weight and importance_cap must not be negative")


class TokenLosses(dict[str, Any]):
    """Flat arrays by name: ``loss`` to be minimised, and ``ratio``, ``clipped``, ``kl`` for the log."""


def clipped_surrogate(log_ratio: Any, advantage: Any, config: LossConfig) -> tuple[Any, Any]:
    """−min(ρA, clip(ρ)A), bounded from above by dual_clip·|A| where A < 0; and where the clip was active."""
    ratio = log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()
    plain = -advantage * ratio
    bounded = -advantage * ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
    loss = torch.maximum(plain, bounded)
    if config.dual_clip:
        loss = torch.where(advantage < 0.0, torch.minimum(loss, -advantage * config.dual_clip), loss)
    return loss, bounded > plain


def kl_estimate(logprob: Any, reference: Any, kind: KLKind) -> Any:
    """Per-token estimate of KL(policy ‖ reference) from samples of the policy, in nats.

    With q = log π_ref − log π, clamped to ±10: k1 = −q; k2 = q² / 2; k3 = exp(q) − q − 1; abs = |q|.
    """
    gap = (reference - logprob).clamp(-LARGEST_KL_LOG_RATIO, LARGEST_KL_LOG_RATIO)
    if kind == "k1":
        return -gap
    if kind == "k2":
        return 0.5 * gap**2
    return gap.abs() if kind == "abs" else gap.exp() - gap - 1.0


def value_losses(value: Any, old: Any, target: Any, clip: float) -> tuple[Any, Any]:
    """½ max((V − R)², (V_clip − R)²), V_clip within ``clip`` of the value before the update; where that was active.

    Args:
        value: V, with gradient.
        old: the value that the advantages were computed with.
        target: R.
        clip: ≥ 0; 0 does not clip.
    """
    plain = (value - target) ** 2
    if not clip:
        return 0.5 * plain, torch.zeros_like(plain, dtype=torch.bool)
    bounded = (old + (value - old).clamp(-clip, clip) - target) ** 2
    return 0.5 * torch.maximum(plain, bounded), bounded > plain


def token_losses(
    logprob: Any,
    entropy: Any,
    old_logprob: Any,
    advantage: Any,
    config: LossConfig,
    *,
    sampler_logprob: Any | None = None,
    reference_logprob: Any | None = None,
) -> TokenLosses:
    """The loss of every target token.

    Args:
        logprob, entropy: under the policy being trained, with gradient.
        old_logprob: under the policy that the ratio is taken against, without gradient.
        advantage: of each token.
        config: weights and bounds.
        sampler_logprob: as sampled; needed for ``importance_cap``.
        reference_logprob: needed for ``kl_weight`` in the loss.
    """
    log_ratio = logprob - old_logprob
    loss, clipped = clipped_surrogate(log_ratio, advantage, config)
    if config.importance_cap and sampler_logprob is not None:
        gap = (old_logprob - sampler_logprob).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        loss = loss * gap.exp().clamp(max=config.importance_cap)
    out = TokenLosses(ratio=log_ratio.detach().exp(), clipped=clipped)
    if config.kl_weight and config.kl_in == "loss" and reference_logprob is not None:
        kl = kl_estimate(logprob, reference_logprob, config.kl_kind)
        loss = loss + config.kl_weight * kl
        out["kl"] = kl.detach()
    if config.entropy_weight:
        loss = loss - config.entropy_weight * entropy
    out["loss"] = loss
    return out
