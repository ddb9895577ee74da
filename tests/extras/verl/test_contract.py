"""Advantages and mask in verl's loss equal the scheme's, token by token, and give the gradient of our own loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS, SIZE
from helpers.trainers.verl_batches import expected, reached, same

from creditflow import credit
from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.verl.record import FIELD
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.records.group import Group

pytestmark = pytest.mark.verl


@pytest.mark.parametrize("scheme", ["grpo", "rloo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
@pytest.mark.parametrize("name", GROUPS)
def test_the_array_and_the_mask_in_the_batch_are_ours(name: str, scheme: str, batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    group, made = GROUPS[name], credit.make(scheme)
    data = batch_of([group])
    assign_advantages(data, made, size=SIZE)
    same(reached(data), expected([group], [made.assign(group)]))


def test_rows_in_any_order_keep_their_advantages(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    groups, made = list(GROUPS.values()), credit.make("gigpo")
    data = batch_of(groups, np.random.default_rng(0).permutation(SIZE * len(groups)))
    assign_advantages(data, made, size=SIZE)
    same(reached(data), expected(groups, [made.assign(group) for group in groups]))


class Chosen(Scheme):
    """Advantages that all differ; every second turn is outside the loss."""

    name = "chosen"

    def assign(self, group: Group) -> Credit:
        n = len(group.turns)
        return Credit.of(
            group,
            outcome=np.zeros(len(group)),
            step=np.arange(n, dtype=np.float64) - 8.5,
            loss_mask=np.arange(n) % 2 == 0,
        )


def test_turns_keep_different_advantages_and_those_outside_the_loss_leave_verls_mask(
    batch_of: Callable[..., Any],
) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    group, made = GROUPS["unequal turn counts"], Chosen()
    data = batch_of([group])
    before = int(data.batch["response_mask"].sum())
    assign_advantages(data, made, size=SIZE)
    same(reached(data), expected([group], [made.assign(group)]))
    assert 0 < int(data.batch["response_mask"].sum()) < before


def test_padding_rows_get_zero_advantages_and_change_no_other_row(batch_of: Callable[..., Any]) -> None:
    from verl.protocol import DataProto

    from creditflow.train.adapters.verl.trainer import assign_advantages

    group, made = GROUPS["unequal turn counts"], credit.make("graphgpo")
    data = batch_of([group])
    data = DataProto.concat([data, data[:3]])
    data.non_tensor_batch["uid"][SIZE:] = "pad0"
    assign_advantages(data, made, size=SIZE, padding=[False] * SIZE + [True] * 3)
    assert not data.batch["advantages"][SIZE:].any()
    same(reached(data[:SIZE]), expected([group], [made.assign(group)]))


def test_rows_without_a_record_are_rejected_with_the_loop_that_writes_one(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    data = batch_of([GROUPS["one turn"]])
    del data.non_tensor_batch[FIELD]
    with pytest.raises(TrajectoryError, match="default_agent_loop=creditflow"):
        assign_advantages(data, credit.make("grpo"), size=SIZE)
