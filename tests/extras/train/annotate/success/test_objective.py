"""Losses of a success model: pivots, outcomes, padding, monotone hazards."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from creditflow.envs.errors import ConfigError
from creditflow.train.annotate.success.training import SuccessLossConfig, hazard_loss, paper_loss


def paper(
    logits: list[float], pivot: list[int], success: bool, non_pivot: list[int] | None = None, **options: Any
) -> torch.Tensor:
    z = torch.tensor([logits], dtype=torch.float64, requires_grad=True)
    turn_labels = [torch.tensor([row], dtype=torch.bool) for row in (pivot, non_pivot or [0] * len(logits))]
    present_mask = torch.ones_like(z, dtype=torch.bool)
    loss = paper_loss(
        z,
        present_mask,
        turn_labels[0],
        turn_labels[1],
        torch.tensor([float(success)], dtype=torch.float64),
        SuccessLossConfig(**options),
    )[0]
    loss.backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()
    return loss.detach()


def test_the_loss_of_a_pivot_that_lowers_success_is_finite() -> None:
    falling = paper([2.0, -30.0, 1.0], [0, 1, 0], True)
    rising = paper([-2.0, 2.0, 1.0], [0, 1, 0], True)
    assert torch.isfinite(falling)
    assert falling > rising


def test_the_outcome_enters_at_the_last_turn_end_only() -> None:
    z = [0.3, -0.4, 0.8]
    last = -torch.nn.functional.logsigmoid(torch.tensor(0.8, dtype=torch.float64))
    torch.testing.assert_close(paper(z, [0, 0, 0], True), last)
    torch.testing.assert_close(paper(z, [0, 0, 0], False), -torch.nn.functional.logsigmoid(torch.tensor(-0.8).double()))


def test_rises_at_turns_that_are_not_pivots_are_not_penalised_by_default() -> None:
    z, none, second = [0.0, 1.0, 1.0], [0, 0, 0], [0, 1, 0]
    torch.testing.assert_close(paper(z, none, True, non_pivot=second), paper(z, none, True))
    assert paper(z, none, True, non_pivot=second, non_pivot_weight=1.0) > paper(z, none, True) + 0.5


def test_padding_does_not_change_a_loss() -> None:
    z = torch.tensor([[0.3, -0.4, 9.0], [0.1, 0.2, 0.3]])
    present_mask = torch.tensor([[True, True, False], [True, True, True]])
    none = torch.zeros_like(present_mask)
    config = SuccessLossConfig()
    both = paper_loss(z, present_mask, none, none, torch.tensor([1.0, 0.0]), config)
    alone = paper_loss(z[:1, :2], present_mask[:1, :2], none[:1, :2], none[:1, :2], torch.tensor([1.0]), config)
    torch.testing.assert_close(both[:1], alone)


def test_the_monotonicity_hinge_is_zero_for_monotone_hazards_alone() -> None:
    present_mask, good = torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, 3, dtype=torch.bool)
    falling, rising = torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([[-1.0, 0.0, 1.0]])

    def hinge(z: torch.Tensor, wrong: torch.Tensor) -> float:
        with_, without = (hazard_loss(z, present_mask, wrong, monotonicity_weight=w).loss for w in (1.0, 0.0))
        return float(with_ - without)

    assert hinge(falling, good) == 0.0
    assert hinge(rising, good) > 0.3
    assert hinge(rising, torch.tensor([[True, True, True]])) == 0.0


def test_negative_weights_are_rejected() -> None:
    with pytest.raises(ConfigError, match="must not be negative"):
        SuccessLossConfig(pivot_weight=-1.0)
