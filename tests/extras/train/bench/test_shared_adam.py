"""A shared policy learns by Adam as the same policy does in torch, with autograd, the trainer's loss and torch's optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from evidence.adam import AdamUpdate, of_trajectories

from creditflow.train.bench.annotation_sources import open_annotation_source
from creditflow.train.bench.exact.values import success
from creditflow.train.bench.learning.batch import Draw, LossTurns, Sampling, draw_tasks, loss_turns, turn_weights
from creditflow.train.bench.learning.policy import LinearPolicy, make_features, policy_with_success
from creditflow.train.bench.learning.stack import StackedTasks
from creditflow.train.bench.shared.cells import learn_shared
from creditflow.train.bench.shared.tasks import viewed_tasks
from creditflow.train.policy.losses import token_losses
from creditflow.train.settings.update import LossConfig

TASKS = viewed_tasks("pits", 0, 0, 6)
MDPS = [task.mdp for task in TASKS]
TRAIN, HELD_OUT = range(4), [4, 5]
START = policy_with_success(StackedTasks(MDPS), make_features("local", [task.parts for task in TASKS]), TRAIN, 0.3)


def rates(policy: LinearPolicy) -> tuple[float, float]:
    found = success(StackedTasks(MDPS), np.concatenate(policy.probabilities(range(6))))
    return float(found[:4].mean()), float(found[4:].mean())


def loss_of(theta: torch.Tensor, tasks: list[int], turns: LossTurns, old: np.ndarray, loss: LossConfig) -> torch.Tensor:
    indices = torch.from_numpy(START.features.of(tasks).indices.astype(np.int64))
    table = torch.log_softmax(theta[indices].sum(dim=1), dim=1)
    at = torch.from_numpy(turns.state), torch.from_numpy(turns.action)
    losses = token_losses(
        table[at], -(table.exp() * table).sum(dim=1)[at[0]], torch.from_numpy(np.log(old))[at],
        torch.from_numpy(turns.advantage), loss,
    )  # fmt: skip
    return (torch.from_numpy(turn_weights(turns)) * losses["loss"]).sum()


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 1), (2, 3)])
def test_curves_are_those_of_torch(unit: bool, epochs: int, minibatches: int) -> None:
    loss = LossConfig()
    sampling, update = Sampling(2, 4, loss), AdamUpdate(0.1, epochs, minibatches, betas=(0.8, 0.95), unit=unit)
    found = learn_shared(
        START, MDPS, TRAIN, HELD_OUT, ["grouptd"], np.random.default_rng(0), sampling=sampling, update=update, updates=3,
        every=1,
    ).curves["grouptd"]  # fmt: skip

    theta = torch.tensor(START.theta, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=0.1, betas=(0.8, 0.95), eps=1e-8)
    policy, rng, expected = START, np.random.default_rng(0), [rates(START)]
    source = open_annotation_source("grouptd", MDPS[0].horizon, sampling.key)
    for number in range(1, 4):
        tasks = draw_tasks(TRAIN, 2, rng)
        seed = int(rng.integers(2**63))
        draw = Draw.of(tasks, rng, f"{number}", (seed,))
        [batch] = sampling.batches(MDPS, draw, [policy])
        credits_ = batch.credit("grouptd", source, draw.corruption, sampling.key)
        turns = loss_turns(batch.groups, credits_, loss)
        if not turns.advantage.any():  # no step, and no decay of Adam's moments
            expected.append(rates(policy))
            continue
        if unit:
            turns = turns._replace(advantage=turns.advantage / np.sqrt(np.mean(turns.advantage**2)))
        members, shuffled = np.unique(turns.trajectory), np.random.default_rng([seed])
        for _ in range(epochs):
            order = shuffled.permutation(members) if minibatches > 1 else members
            for i in range(minibatches):
                optimizer.zero_grad()
                loss_of(theta, tasks, of_trajectories(turns, order[i::minibatches]), batch.policy, loss).backward()
                assert theta.grad is not None
                theta.grad[-1] = 0.0  # of states without features, whose policy stays uniform
                optimizer.step()
        policy = LinearPolicy(theta.detach().numpy().copy(), START.features)
        expected.append(rates(policy))
    np.testing.assert_allclose(np.stack([found.train, found.held_out], axis=1), expected, rtol=1e-7)
    assert abs(expected[-1][0] - expected[0][0]) > 0.01
