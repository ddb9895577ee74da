"""KL in the reward: the divergence from the reference policy is subtracted from rewards before credit is assigned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from creditflow.train.policy.losses import KLKind, kl_estimate
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.samples import Row
from creditflow.wrappers.records.group import Group

__all__ = ["subtract_kl"]


def subtract_kl(
    groups: Sequence[Group], rows: Sequence[Row], logprobs: OldLogprobs, weight: float, kind: KLKind
) -> list[Group]:
    """Groups with ``weight`` × Σ KL estimate over a turn's tokens subtracted from the reward of every turn.

    Args:
        groups: the rollouts.
        rows: rows over all model tokens of ``groups``.
        logprobs: of ``rows``, under the old and the reference policy.
        weight: coefficient of the KL penalty.
        kind: estimator.

    Raises:
        ValueError: log-probabilities under one of the two policies are missing.
    """
    if logprobs.reference is None or logprobs.old is None:
        raise ValueError("KL in the reward needs log-probabilities under the old and the reference policy")
    penalty: dict[tuple[int, int], float] = {}  # (trajectory, turn) → penalty
    for row, old, reference in zip(rows, logprobs.old, logprobs.reference, strict=True):
        kl = kl_estimate(torch.from_numpy(old), torch.from_numpy(reference), kind).numpy()
        for turn, value in zip(row.turn.tolist(), kl.tolist(), strict=True):
            penalty[row.trajectory, turn] = penalty.get((row.trajectory, turn), 0.0) + weight * value
    number = 0
    penalised = []
    for group in groups:
        trajectories = []
        for trajectory in group.trajectories:
            turns = tuple(
                replace(turn, reward=turn.reward - penalty.get((number, t), 0.0))
                for t, turn in enumerate(trajectory.turns)
            )
            trajectories.append(replace(trajectory, turns=turns))
            number += 1
        penalised.append(Group(tuple(trajectories), group.task))
    return penalised
