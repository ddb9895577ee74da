"""The entity schemes' published objectives, through the trainer's own weights and losses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from helpers.shared_data import shared_file

from creditflow import credit
from creditflow.train.policy.losses import LossConfig, clipped_surrogate
from creditflow.train.policy.samples import make_rows, token_weights
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.trajectory import Group, Tokens, Trajectory, Turn

TASK = {"entities": ["N"], "edges": [], "answer_node": "N"}


def cases() -> list[Any]:
    found = []
    for family in ("sapo", "egrpo"):
        data = json.loads(shared_file(f"conformance/search_credit/{family}.json").read_text(encoding="utf-8"))
        found += [
            pytest.param(family, c["input"], c["expected"], data["tolerance"], id=c["id"])
            for c in data["cases"]
            if c["kind"] == "objective"
        ]
    return found


def member(name: str, ratios: list[float], in_loss: bool) -> Trajectory:
    """A rollout of one turn whose tokens, after one prompt token, have these ratios."""
    n = len(ratios)
    logprobs = np.array([0.0, *(-np.log(ratios))], np.float32)
    tokens = Tokens(np.zeros(n + 1, np.int32), np.arange(n + 1) > 0, logprobs, np.array([0, n + 1], np.int32))
    end: Any = "failed" if in_loss else "token_limit"
    return Trajectory(name, "g", "t", (Turn("s", "a", "s"),), False, 0.0, end, "s", tokens=tokens)


@pytest.mark.parametrize(("family", "given", "expected", "tolerance"), cases())
def test_the_trainer_averages_token_losses_as_published(
    family: str, given: Any, expected: float, tolerance: float
) -> None:
    advantage = np.array(given["advantage_per_trajectory" if family == "sapo" else "advantage"])
    kept = given.get("in_loss", [True] * len(advantage))
    group = Group(tuple(member(f"{i}", r, k) for i, (r, k) in enumerate(zip(given["ratios"], kept, strict=True))), TASK)
    scored = credit.make(family).assign(group)
    stated = Credit.of(group, outcome=advantage, loss_mask=scored.flat_loss_mask, aggregation=scored.aggregation)
    rows = make_rows([group], [stated])
    config = LossConfig(clip_low=given["eps_low"], clip_high=given["eps_high"], dual_clip=0.0)
    loss = 0.0
    for row, weights in zip(rows, token_weights(rows, stated.aggregation), strict=True):
        log_ratio = -torch.tensor(row.sampler_logprob, dtype=torch.float64)  # the policy's own log-probability is 0
        losses, _ = clipped_surrogate(log_ratio, torch.tensor(row.advantage), config)
        loss += float((losses * torch.tensor(weights)).sum())
    assert -loss == pytest.approx(expected, abs=tolerance)
