"""SkyRL's estimator over padded rows: a turn's number on its sampled tokens, nothing elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.skyrl.credit import spread_over_turns

NUMBERS = st.floats(-10.0, 10.0, width=32)
TURNS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), NUMBERS), max_size=5)  # sampled, observed, number


@given(st.lists(TURNS, min_size=1, max_size=4), st.integers(0, 3))
def test_each_turns_number_covers_exactly_its_tokens_whatever_the_padding(
    rows: list[list[tuple[int, int, float]]], padding: int
) -> None:
    width = max(sum(a + b for a, b, _ in turns) for turns in rows) + padding or 1
    mask, rewards, wanted = (np.zeros((len(rows), width), np.float32) for _ in range(3))
    for i, turns in enumerate(rows):
        start = 0
        for sampled, observed, number in turns:
            mask[i, start : start + sampled], wanted[i, start : start + sampled] = 1, number
            rewards[i, start + sampled - 1] = number
            start += sampled + observed
    advantages, returns = spread_over_turns(torch.tensor(rewards), torch.tensor(mask), index=None, config=None)
    assert np.array_equal(advantages.numpy(), wanted)
    assert returns is advantages


def test_rewards_that_are_not_credit_are_refused() -> None:
    mask = torch.tensor([[1, 1, 0, 1]])
    for rewards in ([[0.5, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.5, 0.0]]):
        with pytest.raises(TrajectoryError, match="does not end a turn"):
            spread_over_turns(torch.tensor(rewards), mask)
