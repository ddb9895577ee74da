"""The trainer's loss for tabular policies."""

from typing import get_args

import numpy as np
import pytest

from creditflow import credit
from creditflow.train.bench.annotation_sources import open_annotation_source
from creditflow.train.bench.exact.values import softmax
from creditflow.train.bench.learning.batch import LossTurns, ascent_weights, batch_credit, loss_turns, turn_weights
from creditflow.train.bench.learning.stack import StackedTasks, sample_groups
from creditflow.train.bench.shared.tasks import viewed_tasks
from creditflow.train.settings.update import LossConfig
from creditflow.wrappers.credit.base import Aggregation

SEEDS = [(0, 0), (0, 1), (0, 2)]
STACK = StackedTasks([task.mdp for task in viewed_tasks("pits", 2, 0, 3)])
POLICY = softmax(
    np.random.default_rng(0).standard_normal((STACK.size, 4)) + 1.2 * np.concatenate([m.optimal for m in STACK.mdps])
)
(GROUPS,) = sample_groups(STACK, POLICY[None], 6, np.random.default_rng(4))


def scored(name, groups=GROUPS):
    policies = [STACK.split(POLICY)[STACK.mdps.index(group.mdp)] for group in groups]
    return batch_credit(name, groups, policies, open_annotation_source(name, STACK.horizon, "state"), SEEDS)


@pytest.mark.parametrize("aggregation", ["token_mean", "trajectory_mean", "turn_mean"])
def test_weights_sum_to_one_without_masked_turns(aggregation):
    turns = loss_turns(GROUPS, scored("grpo"), LossConfig(aggregation=aggregation))
    assert turn_weights(turns).sum() == pytest.approx(1.0)
    lengths = np.bincount(turns.trajectory)
    assert len(set(lengths.tolist())) > 1
    sums = np.bincount(turns.trajectory, turn_weights(turns))
    expected = lengths / lengths.sum() if aggregation == "token_mean" else np.full(len(lengths), 1.0 / len(lengths))
    np.testing.assert_allclose(sums, expected)


def test_a_constant_divides_the_sum_over_turns_by_the_trajectories():
    turns = loss_turns(GROUPS, scored("grpo"), LossConfig(aggregation="constant", normaliser=5))
    np.testing.assert_allclose(turn_weights(turns), 1.0 / (18 * 5))


def test_masked_turns_are_neither_in_the_loss_nor_in_its_weights():
    (given, *rest) = scored("grpo")
    mask = np.arange(len(given.flat_loss_mask)) >= given.offsets[1]  # without the first trajectory
    masked = credit.Credit.of(
        GROUPS[0], outcome=given.outcome_advantages, loss_mask=mask, aggregation="trajectory_mean"
    )
    turns = loss_turns(GROUPS, [masked, *rest], LossConfig())
    assert turns.aggregation == "trajectory_mean"
    assert 0 not in turns.trajectory
    np.testing.assert_allclose(np.bincount(turns.trajectory, turn_weights(turns)), [0.0] + [1.0 / 17] * 17)


@pytest.mark.parametrize("aggregation", get_args(Aggregation))
def test_weights_sum_to_one_over_the_turns_in_the_loss(aggregation):
    masks = [np.arange(len(group.number)) % 3 > 0 for group in GROUPS]
    credits_ = [
        credit.Credit.of(group, outcome=np.zeros(len(group)), loss_mask=mask)
        for group, mask in zip(GROUPS, masks, strict=True)
    ]
    turns = loss_turns(GROUPS, credits_, LossConfig(aggregation=aggregation))
    assert len(turns.state) == sum(int(mask.sum()) for mask in masks)
    assert turn_weights(turns).sum() == pytest.approx(1.0)


def test_the_aggregation_auto_is_the_schemes_own():
    for name in ("grpo", "grouptd", "rewardflow", "gigpo"):
        given = scored(name)
        assert loss_turns(GROUPS, given, LossConfig()).aggregation == given[0].aggregation


@pytest.mark.parametrize("corrupted", ["shuffled(grouptd)", "flipped(grouptd)"])
def test_a_corrupted_scheme_keeps_its_aggregation(corrupted):
    assert loss_turns(GROUPS, scored(corrupted), LossConfig()).aggregation == "trajectory_mean"


def direction(name, aggregation="token_mean"):
    loss = LossConfig(aggregation=aggregation)
    weights = ascent_weights(loss_turns(GROUPS, scored(name), loss), POLICY)
    return (weights - POLICY * weights.sum(axis=1, keepdims=True)).ravel()


def test_aggregations_differ_where_trajectories_differ_in_length():
    one, other = direction("grpo"), direction("grpo", "trajectory_mean")
    assert one @ other / np.linalg.norm(one) / np.linalg.norm(other) < 0.999


@pytest.mark.parametrize("name", ["grpo", "grouptd", "oracle_adv", "stateless"])
def test_the_order_of_the_tasks_does_not_matter(name):
    order = [2, 0, 1]
    stack, groups = StackedTasks([STACK.mdps[i] for i in order]), [GROUPS[i] for i in order]
    policy = np.concatenate([STACK.split(POLICY)[i] for i in order])
    loss = LossConfig()
    plain = STACK.split(ascent_weights(loss_turns(GROUPS, scored(name), loss), POLICY))
    other = stack.split(ascent_weights(loss_turns(groups, scored(name, groups), loss), policy))
    for i, weights in zip(order, other, strict=True):
        np.testing.assert_allclose(weights, plain[i], atol=1e-15)


def test_an_empty_minibatch_has_no_weights():
    empty = np.zeros(0, np.int64)
    assert len(turn_weights(LossTurns(empty, empty, empty, empty, np.zeros(0), "trajectory_mean"))) == 0
