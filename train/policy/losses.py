"""Token losses: the clipped surrogate, KL to a reference, entropy, and truncated importance sampling.

Every function takes float tensors (N,) over target tokens and returns such tensors; the loss is Σ weight · token loss
with the weights of ``samples.token_weights``. Sources: PPO (Schulman et al. 2017) for the clipped surrogate, dual clip
(Ye et al. 2020), separate bounds (DAPO, Yu et al. 2025), ratios of sequences (GSPO, Zheng et al. 2025), the k1, k2 and k3
estimators (Schulman 2020), truncated importance sampling between sampler and trainer (Yao et al. 2025).
"""

from __future__ import annotations

from typing import Any

import torch

from creditflow.train.settings.update import KLKind, LossConfig

__all__ = [
    "KLKind",
    "LossConfig",
    "TokenLosses",
    "clipped_surrogate",
    "kl_estimate",
    "segment_log_ratio",
    "token_losses",
    "value_losses",
]

MAX_LOG_RATIO = 20.0  # keeps exp finite in float32; at such ratios training has diverged
MAX_KL_LOG_RATIO = 10.0


class TokenLosses(dict[str, Any]):
    """Tensors (N,) by name.

    ``loss`` to minimise, ``ratio`` and ``clipped``; with weights of importance sampling ``truncated``, with KL in the loss
    ``kl``.
    """


def clipped_surrogate(log_ratio: Any, advantage: Any, config: LossConfig) -> tuple[Any, Any]:
    """−min(ρA, clip(ρ)A), bounded from above by dual_clip·|A| where A < 0; and a mask of where clipping was active."""
    ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    unclipped = -advantage * ratio
    clipped = -advantage * ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
    loss = torch.maximum(unclipped, clipped)
    if config.dual_clip:
        loss = torch.where(advantage < 0.0, torch.minimum(loss, -advantage * config.dual_clip), loss)
    return loss, clipped > unclipped


def segment_log_ratio(log_ratio: Any, segment: Any) -> Any:
    """log s of the segment of each token, s = exp(mean log-ratio over the segment), with the gradient of GSPO-token.

    GSPO-token (Zheng et al. 2025, arXiv 2507.18071, eqs. 13 to 17): sg[s] · π / sg[π]. Every token has the value of s and
    the gradient of its own log-probability; the mean over a segment with one advantage has that of s itself.

    Args:
        log_ratio: (N,), log-ratio of each token.
        segment: int64 (N,), number of the turn or sequence of each token, from 0.
    """
    value = log_ratio.detach()
    count = int(segment.max()) + 1 if len(segment) else 0
    sums = torch.zeros(count, dtype=torch.float64, device=value.device).index_add_(0, segment, value.double())
    mean = (sums / torch.bincount(segment, minlength=count))[segment].to(value.dtype)
    return mean + (log_ratio - value)


def kl_estimate(logprob: Any, reference: Any, kind: KLKind) -> Any:
    """Per-token estimate of KL(policy ‖ reference) from samples of the policy, in nats.

    With q = log π_ref − log π, clamped to ±10: k1 = −q; k2 = q² / 2; k3 = exp(q) − q − 1; abs = |q|.
    """
    gap = (reference - logprob).clamp(-MAX_KL_LOG_RATIO, MAX_KL_LOG_RATIO)
    if kind == "k1":
        return -gap
    if kind == "k2":
        return 0.5 * gap**2
    return gap.abs() if kind == "abs" else gap.exp() - gap - 1.0


def value_losses(value: Any, old: Any, target: Any, clip: float) -> tuple[Any, Any]:
    """½ max((V − R)², (V_clip − R)²), V_clip within ``clip`` of the old value; and a mask of where clipping was active.

    Args:
        value: V, with gradient.
        old: old value, with which the advantages were computed.
        target: R, the value target.
        clip: ≥ 0; 0 does not clip.
    """
    unclipped = (value - target) ** 2
    if not clip:
        return 0.5 * unclipped, torch.zeros_like(unclipped, dtype=torch.bool)
    clipped = (old + (value - old).clamp(-clip, clip) - target) ** 2
    return 0.5 * torch.maximum(unclipped, clipped), clipped > unclipped


def token_losses(
    logprob: Any,
    entropy: Any,
    old_logprob: Any,
    advantage: Any,
    config: LossConfig,
    *,
    sampler_logprob: Any | None = None,
    reference_logprob: Any | None = None,
    segment: Any | None = None,
) -> TokenLosses:
    """The loss of every target token.

    Args:
        logprob, entropy: log-probabilities and entropies (nats) under the policy being trained, with gradient.
        old_logprob: log-probabilities under the old policy, without gradient.
        advantage: advantages.
        config: weights and bounds.
        sampler_logprob: log-probabilities at sampling; needed for ``importance_cap``.
        reference_logprob: log-probabilities under the reference policy; needed for ``kl_weight`` in the loss.
        segment: int64 (N,), the turn or sequence whose ratio each token has; None: every token has its own.
    """
    log_ratio = logprob - old_logprob
    if segment is not None:
        log_ratio = segment_log_ratio(log_ratio, segment)
    loss, clipped = clipped_surrogate(log_ratio, advantage, config)
    out = TokenLosses(ratio=log_ratio.detach().exp(), clipped=clipped)
    if config.importance_cap and sampler_logprob is not None:
        importance = (old_logprob - sampler_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
        loss = loss * importance.clamp(max=config.importance_cap)
        out["truncated"] = importance > config.importance_cap
    if config.kl_weight and config.kl_in == "loss" and reference_logprob is not None:
        kl = kl_estimate(logprob, reference_logprob, config.kl_kind)
        loss = loss + config.kl_weight * kl
        out["kl"] = kl.detach()
    if config.entropy_weight:
        loss = loss - config.entropy_weight * entropy
    out["loss"] = loss
    return out
