"""The losses of a success model, the paper's made well-defined and the released hazard losses, and one optimiser step.

The model gives one logit z at the end of the question and of every turn. Under "paper" f = σ(z) is the probability of
success at that point. Under "hazard" h = σ(z) is the probability that the turn is the first error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from creditflow.train.annotate.success.model import SuccessModel
from creditflow.train.annotate.success.predict import EpisodeBatch, read_logits
from creditflow.train.annotate.success.samples import Sample
from creditflow.train.annotate.success.settings import SuccessLossConfig, SuccessTrainConfig
from creditflow.train.policy.batching import plan
from creditflow.train.policy.failures import DivergedError
from creditflow.train.policy.network.options import autocast
from creditflow.train.policy.optimizer import clip_gradient

__all__ = ["HazardLoss", "SuccessLossConfig", "hazard_loss", "label_loss", "paper_loss", "success_step"]

SURVIVAL_FLOOR = 1e-5  # of 1 − Π(1 − h), as released


def paper_loss(
    logits: Any, present_mask: Any, pivot: Any, non_pivot: Any, success: Any, config: SuccessLossConfig
) -> Any:
    """The loss of every trajectory (B,).

    L_final = −log f(T) or −log(1 − f(T)) (eq. 9); L_gold = Σ over pivots of the bounded penalty (eq. 8).

    Args:
        logits: float (B, S), z at the end of the question and of each turn, in order; right-padded.
        present_mask: bool (B, S), False for padding; the first is always True.
        pivot, non_pivot: bool (B, S), label of the turn that ends there; False at the question.
        success: float (B,), 1 or 0.
        config: kind "paper".
    """
    log_f, log_not = functional.logsigmoid(logits), functional.logsigmoid(-logits)
    entropy = -(success[:, None] * log_f + (1.0 - success[:, None]) * log_not)
    last = present_mask.sum(1, keepdim=True) - 1
    loss = entropy.gather(1, last)[:, 0]
    rise = log_f[:, 1:] - log_f[:, :-1]
    loss = loss + config.pivot_weight * (_penalty(rise, config) * pivot[:, 1:]).sum(1)
    if config.non_pivot_weight:
        loss = loss + config.non_pivot_weight * (_penalty(-rise, config) * non_pivot[:, 1:]).sum(1)
    if config.every_turn_weight:
        earlier = present_mask & (torch.arange(present_mask.shape[1], device=present_mask.device)[None] < last)
        loss = loss + config.every_turn_weight * (entropy * earlier).sum(1) / earlier.sum(1).clamp(min=1)
    return loss


def _penalty(rise: Any, config: SuccessLossConfig) -> Any:
    return functional.softplus(-rise) if config.pivot_loss == "softplus" else (config.margin - rise).clamp(min=0.0)


class HazardLoss(NamedTuple):
    """Scalars.

    Attributes:
        loss, loss_pos, loss_neg: the loss to minimise; its means over good and over bad samples.
        acc, acc_pos, acc_neg: mean probability of the correct label over all positions, over "+" and over "-".
    """

    loss: Any
    loss_pos: Any
    loss_neg: Any
    acc: Any
    acc_pos: Any
    acc_neg: Any


def hazard_loss(
    logits: Any, present_mask: Any, wrong: Any, *, negative_weight: float = 1.0, monotonicity_weight: float = 0.0
) -> HazardLoss:
    """The released losses: ``CRMLoss``, and with ``monotonicity_weight`` ``TACRMLoss``.

    A sample is bad if its last label is "-"; other "-" of good samples do not count. Good: −Σ log(1 − h).
    Bad, z its first "-": −log max(1 − Π(1 − h), 1e-5) − log h_z − Σ_{t<z} log(1 − h_t). The monotonicity hinge compares
    every position with its right-hand *neighbour in the tensor*: of good samples, if both are labelled, h must fall by 0.05;
    of bad ones, from z on, it must rise. Released code passes whole token sequences, where a neighbour is
    never labelled; with one column per turn it enforces monotonicity.

    Args:
        logits: float (B, L), z.
        present_mask: bool (B, L), the labelled positions.
        wrong: bool (B, L), positions labelled "-"; all others count as "+".
        negative_weight: weight of bad samples.
        monotonicity_weight: weight of the hinge.
    """
    batch, length = logits.shape
    at = torch.arange(length, device=logits.device)[None].expand(batch, length)
    wrong = wrong & present_mask
    nonempty = present_mask.any(1)
    last = (at * present_mask).max(1).values
    bad = nonempty & wrong.gather(1, last[:, None])[:, 0]
    good = nonempty & ~bad
    survive = functional.logsigmoid(-logits) * present_mask
    first = wrong.float().argmax(1)
    failed = -(1.0 - survive.sum(1).exp()).clamp(min=SURVIVAL_FLOOR).log()
    located = -functional.logsigmoid(logits).gather(1, first[:, None])[:, 0]
    before = -(survive * (at < first[:, None])).sum(1)
    of_good, of_bad = -survive.sum(1), failed + located + before
    hazard = torch.sigmoid(logits)
    if monotonicity_weight and length > 1:
        fall = hazard[:, :-1] - hazard[:, 1:]
        pairs = present_mask[:, :-1]
        rising = (0.05 + fall).clamp(min=0.0) * (pairs & (at[:, 1:] >= first[:, None]))
        falling = (0.05 - fall).clamp(min=0.0) * (pairs & present_mask[:, 1:])
        of_good, of_bad = of_good + monotonicity_weight * falling.sum(1), of_bad + monotonicity_weight * rising.sum(1)
    of_bad = negative_weight * of_bad
    sums = (of_good * good).sum(), (of_bad * bad).sum()
    correct, masks = torch.where(wrong, hazard, 1.0 - hazard), (present_mask, present_mask & ~wrong, wrong)
    return HazardLoss(
        (sums[0] + sums[1]) / nonempty.sum().clamp(min=1),
        sums[0] / good.sum().clamp(min=1),
        sums[1] / bad.sum().clamp(min=1),
        *((correct * mask).sum() / mask.sum().clamp(min=1) for mask in masks),
    )


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
