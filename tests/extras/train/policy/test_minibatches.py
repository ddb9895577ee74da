"""Minibatches by number and by size: every row once, sizes near the wanted one, the same for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.samples import Row
from creditflow.train.policy.update import make_minibatches, split_by_size
from creditflow.train.settings.schema import UpdateConfig
from creditflow.train.settings.update import LossConfig


def row(trajectory: int, turns: list[int], turn_index: int = -1) -> Row:
    n = len(turns)
    return Row(
        np.zeros(n + 1, np.int32), np.arange(1, n + 1), np.ones(n), np.zeros(n, np.float32),
        np.array(turns, np.int32), trajectory, turn_index,
    )  # fmt: skip


def turn_rows(lengths: list[int]) -> list[Row]:
    """A row per turn: one trajectory per entry, with that many turns of two tokens."""
    return [row(i, [t, t], t) for i, turns in enumerate(lengths) for t in range(turns)]


@pytest.mark.parametrize(
    ("turns", "sizes"), [(6400, [256] * 25), (1000, [250] * 4), (384, [192] * 2), (383, [383]), (10, [10])]
)
def test_a_batch_of_turns_has_the_nearest_whole_number_of_minibatches(turns: int, sizes: list[int]) -> None:
    found = split_by_size(turn_rows([50] * (turns // 50) + [turns % 50]), 256, "turn", np.random.default_rng(0))
    assert [len(one) for one in found] == sizes


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.integers(1, 40),
    st.sampled_from(["trajectory", "turn", "token"]),
    st.integers(0, 2**31),
)
def test_every_row_is_in_one_minibatch_and_sizes_differ_by_little_more_than_a_row(
    lengths: list[int], size: int, unit: str, seed: int
) -> None:
    rows = [row(i, sorted(np.random.default_rng([seed, i]).integers(0, 4, n).tolist())) for i, n in enumerate(lengths)]
    found = split_by_size(rows, size, unit, np.random.default_rng(seed))
    assert sorted(i for one in found for i in one) == list(range(len(rows)))
    assert found == split_by_size(rows, size, unit, np.random.default_rng(seed))
    units = {
        "trajectory": lambda one: 1,
        "turn": lambda one: len(set(one.turn.tolist())),
        "token": lambda one: len(one.turn),
    }
    counts = [units[unit](one) for one in rows]
    mean = sum(counts) / max(1, int(sum(counts) / size + 0.5))
    assert all(abs(sum(counts[i] for i in one) - mean) < max(counts) + 1 for one in found)
    assert mean <= 1.5 * size or len(found) == 1


def test_trajectories_stay_together_only_where_they_are_the_unit() -> None:
    rows = turn_rows([6] * 8)

    def split(unit: str) -> int:
        """Number of trajectories with turns in several minibatches."""
        minibatches = split_by_size(rows, 4 if unit == "trajectory" else 24, unit, np.random.default_rng(1))
        owners = [{rows[i].trajectory for i in one} for one in minibatches]
        return sum(sum(t in one for one in owners) > 1 for t in range(8))

    assert split("trajectory") == 0
    assert split("turn") > 0


def test_the_old_policy_is_needed_wherever_an_iteration_may_have_several_steps() -> None:
    assert UpdateConfig().one_step
    several: list[dict[str, Any]] = [{"epochs": 2}, {"minibatches": 2}, {"minibatch_size": 256}]
    assert not any(UpdateConfig(**settings).one_step for settings in several)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(1, 5), st.integers(0, 2**31))
def test_a_number_of_minibatches_divides_the_trajectories_evenly(turns: list[int], count: int, seed: int) -> None:
    rows = turn_rows(turns)
    config = UpdateConfig(minibatches=count)
    found = list(make_minibatches(rows, OldLogprobs(None), config, "token_mean", np.random.default_rng(seed)))
    numbers = [[row.trajectory for row in one.rows] for one in found]
    assert len(found) == min(count, len(turns))
    assert sorted(x for one in numbers for x in set(one)) == list(range(len(turns)))  # each in one minibatch
    assert sum(map(len, numbers)) == len(rows)
    sizes = [len(set(one)) for one in numbers]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("settings", [{}, {"minibatch_size": 100}], ids=["by number", "by size"])
def test_a_single_minibatch_has_the_rows_in_order_and_draws_nothing(settings: dict[str, Any]) -> None:
    rows, rng = turn_rows([3, 1, 2]), np.random.default_rng(4)
    [only] = make_minibatches(rows, OldLogprobs(None), UpdateConfig(**settings), "token_mean", rng)
    assert only.rows == rows
    assert rng.bit_generator.state == np.random.default_rng(4).bit_generator.state


def test_number_and_size_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="not by both"):
        UpdateConfig(minibatches=2, minibatch_size=64)


def test_a_minibatch_by_size_keeps_the_log_probabilities_of_its_rows() -> None:
    rows = turn_rows([5, 3, 4])
    old = [np.full(2, float(i), np.float32) for i in range(len(rows))]
    config = UpdateConfig(minibatch_size=4, minibatch_unit="turn")
    found = list(make_minibatches(rows, OldLogprobs(old), config, "token_mean", np.random.default_rng(2)))
    assert len(found) == 3
    for minibatch in found:
        assert minibatch.old is not None
        assert [rows[int(one[0])] for one in minibatch.old] == minibatch.rows
        assert sum(float(one.sum()) for one in minibatch.weights) == pytest.approx(1.0)


@pytest.mark.parametrize("unit", ["trajectory", "turn", "token"])
def test_a_constant_normaliser_gives_tokens_the_same_weight_however_rows_are_split(unit: Any) -> None:
    rows = turn_rows([4] * 8)  # 8 trajectories of 8 tokens
    size = {"trajectory": 2, "turn": 8, "token": 16}[unit]
    config = UpdateConfig(
        minibatch_size=size, minibatch_unit=unit, loss=LossConfig(aggregation="constant", normaliser=5)
    )
    found = list(make_minibatches(rows, OldLogprobs(None), config, "constant", np.random.default_rng(3)))
    assert len(found) == 4
    weights = [one.scale * weight for one in found for weight in one.weights]
    np.testing.assert_allclose(np.concatenate(weights), 1 / (2 * 5))  # two trajectories' tokens in each minibatch
