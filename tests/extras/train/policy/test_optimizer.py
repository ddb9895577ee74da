"""The optimiser: its learning-rate schedule, what is decayed, whose rate is set, and the clipped gradient."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.policy.failures import DivergedError
from creditflow.train.policy.optimizer import (
    OptimizerConfig,
    clip_gradient,
    learning_rate,
    make_optimizer,
    set_learning_rate,
)

Schedule = Literal["constant", "linear", "cosine"]
SCHEDULES: tuple[Schedule, ...] = ("constant", "linear", "cosine")


def rates(total: int, **settings: Any) -> list[float]:
    config = OptimizerConfig(lr=2.0, **settings)
    return [learning_rate(config, step, total) for step in range(total)]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.5, 1.0, 1.5, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]),
        ("linear", [0.5, 1.0, 1.5, 2.0, 1.75, 1.5, 1.25, 1.0, 0.75]),  # from the peak towards a quarter of it
        ("cosine", [0.5, 1.0, 1.5, *(1.25 + 0.75 * math.cos(math.pi * k / 6) for k in range(6))]),
    ],
)
def test_rates_of_a_third_of_warm_up_and_a_decay_to_a_quarter(schedule: Schedule, expected: list[float]) -> None:
    found = rates(9, schedule=schedule, warmup_fraction=1 / 3, min_lr_fraction=0.25)
    assert found == pytest.approx(expected)


@given(st.integers(1, 40), st.floats(0.0, 0.99), st.floats(0.0, 1.0), st.sampled_from(SCHEDULES))
def test_the_rate_rises_to_the_peak_once_and_then_never_rises_nor_falls_below_its_floor(
    total: int, warmup: float, floor: float, schedule: Schedule
) -> None:
    found = rates(total, schedule=schedule, warmup_fraction=warmup, min_lr_fraction=floor)
    peak = int(warmup * total)
    assert found[peak] == max(found) == 2.0
    assert all(0.0 < a < b for a, b in pairwise(found[: peak + 1]))
    after = found[peak:]
    assert all(a >= b for a, b in pairwise(after))
    assert min(after) >= 2.0 * floor - 1e-12


class Bare(torch.nn.Module):
    """A matrix and a vector, both of ones."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix, self.vector = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))


def with_gradient(*values: float) -> Bare:
    """The gradient of the vector; that of the matrix is 0."""
    module = Bare()
    module.matrix.grad, module.vector.grad = torch.zeros(2, 2), torch.tensor(values)
    return module


def test_matrices_are_decayed_and_vectors_are_not() -> None:
    module = with_gradient(0.0, 0.0)
    make_optimizer(module, OptimizerConfig(lr=0.1, weight_decay=0.5)).step()
    torch.testing.assert_close(module.matrix.detach(), torch.full((2, 2), 1.0 - 0.1 * 0.5))
    assert module.vector.tolist() == [1.0, 1.0]


def test_frozen_parameters_are_not_the_optimisers() -> None:
    module = Bare()
    module.vector.requires_grad_(False)
    held = [p for group in make_optimizer(module, OptimizerConfig()).param_groups for p in group["params"]]
    assert len(held) == 1 and held[0] is module.matrix


def test_policy_and_critic_have_rates_of_their_own() -> None:
    policy, critic = with_gradient(1.0, 1.0), with_gradient(1.0, 1.0)
    optimizer = make_optimizer(policy, OptimizerConfig(lr=0.1), critic, 0.25)
    assert [(group["role"], group["lr"]) for group in optimizer.param_groups] == [
        *[("policy", 0.1)] * 2,
        *[("critic", 0.25)] * 2,
    ]
    set_learning_rate(optimizer, 0.5)
    set_learning_rate(optimizer, 0.125, "critic")
    optimizer.step()  # AdamW's first step is the learning rate times the sign of the gradient
    torch.testing.assert_close(policy.vector.detach(), torch.full((2,), 0.5))
    torch.testing.assert_close(critic.vector.detach(), torch.full((2,), 0.875))


@pytest.mark.parametrize(
    ("limit", "left"), [(1.0, [0.6, 0.8]), (0.0, [3.0, 4.0]), (7.0, [3.0, 4.0])], ids=["above", "none", "below"]
)
def test_a_gradient_is_clipped_to_a_norm_and_its_own_norm_reported(limit: float, left: list[float]) -> None:
    module = with_gradient(3.0, 4.0)
    assert clip_gradient(module, limit) == pytest.approx(5.0)
    assert module.vector.grad is not None
    assert module.vector.grad.tolist() == pytest.approx(left, rel=1e-5)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("limit", [0.0, 1.0])
def test_a_gradient_that_is_not_finite_is_reported_as_divergence(wrong: float, limit: float) -> None:
    with pytest.raises(DivergedError, match="gradient is not finite"):
        clip_gradient(with_gradient(1.0, wrong), limit)
