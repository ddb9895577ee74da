"""The loss of the benchmark's shared policies equals the trainer's loss, and its gradient equals autograd's."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from evidence.adam import clipped_weights

from creditflow.train.bench.annotation_sources import open_annotation_source
from creditflow.train.bench.exact.values import softmax
from creditflow.train.bench.learning.batch import batch_credit, loss_turns
from creditflow.train.bench.learning.stack import StackedTasks, sample_groups
from creditflow.train.bench.shared.tasks import viewed_tasks
from creditflow.train.policy.losses import token_losses
from creditflow.train.policy.samples import Row, token_weights
from creditflow.train.settings.update import LossConfig
from creditflow.wrappers.credit.base import Aggregation

STACK = StackedTasks([task.mdp for task in viewed_tasks("pits", 2, 0, 3)])
LOGITS = np.random.default_rng(0).standard_normal((STACK.size, 4)) + 1.2 * np.concatenate(
    [mdp.optimal for mdp in STACK.mdps]
)
(GROUPS,) = sample_groups(STACK, softmax(LOGITS)[None], 6, np.random.default_rng(4))


def rows_of(turns):
    """One row per trajectory, one token per turn."""
    rows = []
    for number in np.unique(turns.trajectory).tolist():
        own = turns.trajectory == number
        n = int(own.sum())
        rows.append(
            Row(
                np.zeros(n + 1, np.int32), np.arange(1, n + 1), turns.advantage[own], np.zeros(n, np.float32),
                np.arange(n, dtype=np.int32), number, group=int(turns.group[own][0]),
            )
        )  # fmt: skip
    return rows


@pytest.mark.parametrize("name", ["grpo", "grouptd", "oracle_adv", "gigpo", "rewardflow"])
@pytest.mark.parametrize("aggregation", ["auto", *get_args(Aggregation)])
@pytest.mark.parametrize(
    "loss", [LossConfig(), LossConfig(clip_low=0.1, clip_high=0.3, dual_clip=1.5), LossConfig(dual_clip=0.0)]
)
def test_the_gradient_is_that_of_the_trainers_loss(name, aggregation, loss):
    rng = np.random.default_rng(3)
    now = LOGITS + 0.4 * rng.standard_normal(LOGITS.shape)
    policies = STACK.split(softmax(LOGITS))
    credits_ = batch_credit(name, GROUPS, policies, open_annotation_source(name, STACK.horizon, "state"), [(0,)] * 3)
    turns = loss_turns(GROUPS, credits_, replace(loss, aggregation=aggregation))
    weights = clipped_weights(turns, softmax(now), loss, softmax(LOGITS))
    ours = -(weights - softmax(now) * weights.sum(axis=1, keepdims=True))

    logits = torch.tensor(now, requires_grad=True)
    table = torch.log_softmax(logits, dim=1)
    old = torch.log_softmax(torch.tensor(LOGITS), dim=1)
    at = torch.tensor(turns.state), torch.tensor(turns.action)
    losses = token_losses(
        table[at], -(table.exp() * table).sum(dim=1)[at[0]], old[at], torch.tensor(turns.advantage), loss
    )
    assert turns.aggregation != "constant"
    weight = np.concatenate(token_weights(rows_of(turns), turns.aggregation))
    assert turns.trajectory.tolist() == sorted(turns.trajectory.tolist())
    (torch.tensor(weight) * losses["loss"]).sum().backward()
    np.testing.assert_allclose(ours, logits.grad.numpy(), atol=1e-14)
