"""Losses of a success model: the paper's, made well-defined, and the hazard losses of the released code.

The model gives one logit z at the end of the question and of every turn. Under "paper" f = σ(z) is the probability of
success at that point. Under "hazard" h = σ(z) is the probability that the turn is the first error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn import functional

from creditflow.train.annotate.success.settings import SuccessLossConfig

__all__ = ["HazardLoss", "SuccessLossConfig", "hazard_loss", "paper_loss"]

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
