"""Losses of a success model: the paper's, made well-defined, and the hazard losses of the released code.

The model reads one number z per place. Under "paper" f = σ(z) is the probability of success there; places are the end
of the question and of every turn. Under "hazard" h = σ(z) is the probability that a turn is the first error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch.nn import functional

from creditflow.envs.errors import ConfigError

__all__ = ["HazardLoss", "SuccessLossConfig", "hazard_loss", "paper_loss"]

SURVIVAL_FLOOR = 1e-5  # of 1 − Π(1 − h), as released


@dataclass(frozen=True, kw_only=True)
class SuccessLossConfig:
    """What is minimised.

    Attributes:
        kind: "paper" (eqs. 8 to 10) or "hazard" (released).
        gold: what takes the place of −log g_t on pivots, which has no value for g ≤ 0. With r = log f(t) − log f(t−1):
            "softplus" is log(1 + exp(−r)), "hinge" max(0, margin − r). Both fall as r rises, and stay finite.
        margin: of the hinge, in nats; of the released monotonicity hinge it is 0.05 of probability, whatever stands here.
        gold_weight: λ_g of eq. 10.
        every_turn: weight of the outcome's cross-entropy at *every* place, not only the last: it makes f(t) the
            calibrated probability that eq. 2 defines. 0 in the paper.
        plain_weight: weight of the same penalty with −r on turns marked as no pivots, which the paper leaves to the
            outcome. 0 in the paper.
        negative_weight: of failed samples ("hazard").
        monotone_weight: of the released monotonicity hinge ("hazard"); between turns, where the released code compares
            tokens that are no turns.
    """

    kind: Literal["paper", "hazard"] = "paper"
    gold: Literal["softplus", "hinge"] = "softplus"
    margin: float = 0.5
    gold_weight: float = 1.0
    every_turn: float = 0.0
    plain_weight: float = 0.0
    negative_weight: float = 1.0
    monotone_weight: float = 0.0

    def __post_init__(self) -> None:
        weights = ("gold_weight", "every_turn", "plain_weight", "negative_weight", "monotone_weight", "margin")
        if any(getattr(self, name) < 0.0 for name in weights):
            raise ConfigError(f"the weights of a success model's loss and its margin must not be negative: {self}")


def paper_loss(logits: Any, there: Any, pivot: Any, plain: Any, success: Any, config: SuccessLossConfig) -> Any:
    """The loss of every trajectory (B,).

    L_final = −log f(T) or −log(1 − f(T)) (eq. 9); L_gold = Σ over pivots of the bounded penalty (eq. 8).

    Args:
        logits: float (B, S), z at the end of the question and of each turn, in order; padding behind.
        there: bool (B, S), which of them there are; the first always is.
        pivot, plain: bool (B, S), marks of the turn that ends at a place; False at place 0.
        success: float (B,), 1 or 0.
        config: kind "paper".
    """
    log_f, log_not = functional.logsigmoid(logits), functional.logsigmoid(-logits)
    entropy = -(success[:, None] * log_f + (1.0 - success[:, None]) * log_not)
    last = there.sum(1, keepdim=True) - 1
    loss = entropy.gather(1, last)[:, 0]
    rise = log_f[:, 1:] - log_f[:, :-1]
    loss = loss + config.gold_weight * (_penalty(rise, config) * pivot[:, 1:]).sum(1)
    if config.plain_weight:
        loss = loss + config.plain_weight * (_penalty(-rise, config) * plain[:, 1:]).sum(1)
    if config.every_turn:
        earlier = there & (torch.arange(there.shape[1], device=there.device)[None] < last)
        loss = loss + config.every_turn * (entropy * earlier).sum(1) / earlier.sum(1).clamp(min=1)
    return loss


def _penalty(rise: Any, config: SuccessLossConfig) -> Any:
    return functional.softplus(-rise) if config.gold == "softplus" else (config.margin - rise).clamp(min=0.0)


class HazardLoss(NamedTuple):
    """Scalars.

    Attributes:
        loss, loss_pos, loss_neg: to be minimised; its means over good and over bad samples.
        acc, acc_pos, acc_neg: mean probability of the right mark over all places, over "+" and over "-".
    """

    loss: Any
    loss_pos: Any
    loss_neg: Any
    acc: Any
    acc_pos: Any
    acc_neg: Any


def hazard_loss(
    logits: Any, there: Any, wrong: Any, *, negative_weight: float = 1.0, monotone_weight: float = 0.0
) -> HazardLoss:
    """The released losses: ``CRMLoss``, and with ``monotone_weight`` ``TACRMLoss``.

    A sample is bad if its last place is marked "-"; other "-" of good samples do not count. Good: −Σ log(1 − h).
    Bad, z its first "-": −log max(1 − Π(1 − h), 1e-5) − log h_z − Σ_{t<z} log(1 − h_t). The monotonicity hinge compares
    every place with its right-hand *neighbour in the tensor*: of good samples, if both are places, h must fall by 0.05;
    of bad ones, from z on, it must rise. Released code gives it whole token sequences, where a neighbour is never a
    place; with one column a turn it does what it is called.

    Args:
        logits: float (B, L), z.
        there: bool (B, L), the places.
        wrong: bool (B, L), places marked "-"; all others count as "+".
        negative_weight: of bad samples.
        monotone_weight: of the hinge.
    """
    batch, length = logits.shape
    at = torch.arange(length, device=logits.device)[None].expand(batch, length)
    wrong = wrong & there
    some = there.any(1)
    last = (at * there).max(1).values
    bad = some & wrong.gather(1, last[:, None])[:, 0]
    good = some & ~bad
    survive = functional.logsigmoid(-logits) * there
    first = wrong.float().argmax(1)
    failed = -(1.0 - survive.sum(1).exp()).clamp(min=SURVIVAL_FLOOR).log()
    located = -functional.logsigmoid(logits).gather(1, first[:, None])[:, 0]
    before = -(survive * (at < first[:, None])).sum(1)
    of_good, of_bad = -survive.sum(1), failed + located + before
    chance = torch.sigmoid(logits)
    if monotone_weight and length > 1:
        fall = chance[:, :-1] - chance[:, 1:]
        pairs = there[:, :-1]
        rising = (0.05 + fall).clamp(min=0.0) * (pairs & (at[:, 1:] >= first[:, None]))
        falling = (0.05 - fall).clamp(min=0.0) * (pairs & there[:, 1:])
        of_good, of_bad = of_good + monotone_weight * falling.sum(1), of_bad + monotone_weight * rising.sum(1)
    of_bad = negative_weight * of_bad
    sums = (of_good * good).sum(), (of_bad * bad).sum()
    right, marks = torch.where(wrong, chance, 1.0 - chance), (there, there & ~wrong, wrong)
    return HazardLoss(
        (sums[0] + sums[1]) / some.sum().clamp(min=1),
        sums[0] / good.sum().clamp(min=1),
        sums[1] / bad.sum().clamp(min=1),
        *((right * mark).sum() / mark.sum().clamp(min=1) for mark in marks),
    )
