"""One optimiser step of a success model: micro-batches → logits at turn ends → loss → step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from creditflow.train.annotate.success.loss import SuccessLossConfig, hazard_loss, paper_loss
from creditflow.train.annotate.success.model import SuccessModel
from creditflow.train.annotate.success.predict import EpisodeBatch, read_logits
from creditflow.train.annotate.success.samples import Sample
from creditflow.train.annotate.success.settings import SuccessTrainConfig
from creditflow.train.policy.batching import plan
from creditflow.train.policy.failures import DivergedError
from creditflow.train.policy.network.options import autocast
from creditflow.train.policy.optimizer import clip_gradient

__all__ = ["label_loss", "success_step"]


def success_step(
    model: SuccessModel, optimizer: Any, samples: Sequence[Sample], settings: SuccessTrainConfig
) -> dict[str, float]:
    """Take one optimiser step on some episodes, of equal weight.

    Returns:
        ``loss``, ``grad_norm`` (before clipping), ``tokens``; ``reward_pivot`` and ``reward_other``, the mean step reward
        of the labelled turns (PiCA, figure 5): log f(t) − log f(t−1), or log(1 − h(t)) of a hazard model; nan without any.

    Raises:
        DivergedError: the loss or the gradient is not finite.
    """
    device = next(model.parameters()).device
    optimizer.zero_grad(set_to_none=True)
    total, rewards, pivots = 0.0, list[NDArray[np.float32]](), list[NDArray[np.bool_]]()
    for chosen in plan([len(sample.episode) for sample in samples], settings.batch_tokens):
        members = [samples[i] for i in chosen]
        with autocast(settings.model.autocast, device):
            logits, loss = _micro_loss(model, members, settings)
            loss = loss * (len(members) / len(samples))
        if not torch.isfinite(loss):
            raise DivergedError("the loss of the success model is not finite", [])
        loss.backward()
        total += float(loss.detach())
        for row, sample in zip(_step_rewards(logits.detach(), settings.loss.kind), members, strict=True):
            labelled = (sample.pivot | sample.non_pivot)[1:]
            rewards.append(row[: len(labelled)][labelled])
            pivots.append(sample.pivot[1:][labelled])
    norm = clip_gradient(model, settings.optimizer.grad_clip)
    optimizer.step()
    reward, pivot = np.concatenate(rewards), np.concatenate(pivots)
    return {
        "loss": total, "grad_norm": norm, "tokens": float(sum(len(sample.episode) for sample in samples)),
        "reward_pivot": _mean(reward[pivot]), "reward_other": _mean(reward[~pivot]),
    }  # fmt: skip


def _mean(values: NDArray[np.float32]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _step_rewards(logits: Any, kind: str) -> NDArray[np.float32]:
    """The step rewards of turns, float32 (B, S − 1), from the logits at the question and at turn ends."""
    if kind == "hazard":
        return np.asarray(functional.logsigmoid(-logits[:, 1:]).float().cpu().numpy())
    return np.asarray(functional.logsigmoid(logits).diff(dim=1).float().cpu().numpy())


def _micro_loss(model: SuccessModel, members: Sequence[Sample], settings: SuccessTrainConfig) -> tuple[Any, Any]:
    """The logits at turn ends, and the mean loss of some episodes."""
    device = next(model.parameters()).device
    batch = EpisodeBatch([sample.episode for sample in members], device)
    hidden = model.hidden(batch.ids)
    logits = read_logits(model, batch, hidden)
    loss = label_loss(logits, batch.present_mask, members, settings.loss)
    if settings.language_weight:
        is_token = torch.zeros(batch.ids.shape, dtype=torch.bool)
        for row, sample in enumerate(members):
            is_token[row, 1 : len(sample.episode)] = True
        next_token = model.backbone.get_output_embeddings()(hidden[:, :-1][is_token[:, 1:].to(device)])
        targets = batch.ids[is_token.to(device)]
        loss = loss + settings.language_weight * functional.cross_entropy(next_token.float(), targets)
    return logits, loss


def label_loss(logits: Any, present_mask: Any, members: Sequence[Sample], config: SuccessLossConfig) -> Any:
    """Mean loss of some episodes, given the logits (B, S) of the head."""
    device, most = logits.device, logits.shape[1]

    def padded(name: str) -> Any:
        out = np.zeros((len(members), most), np.bool_)
        for row, sample in enumerate(members):
            labelled = getattr(sample, name)
            out[row, : len(labelled)] = labelled
        return torch.from_numpy(out).to(device)

    if config.kind == "hazard":
        hazard = hazard_loss(
            logits[:, 1:],
            (padded("pivot") | padded("non_pivot"))[:, 1:],
            padded("non_pivot")[:, 1:],
            negative_weight=config.negative_weight,
            monotonicity_weight=config.monotonicity_weight,
        )
        return hazard.loss
    success = torch.tensor([float(sample.success) for sample in members], device=device)
    return paper_loss(logits, present_mask, padded("pivot"), padded("non_pivot"), success, config).mean()
