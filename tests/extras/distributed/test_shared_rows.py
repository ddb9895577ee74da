"""Rows divided over ranks in any way: every rank makes the minibatches and weights of one process, and computes its own rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.train.distributed.rows import gather_rows, own_rows
from creditflow.train.distributed.world import ALONE, World
from creditflow.train.policy.critic import count_value_targets
from creditflow.train.policy.minibatches import make_minibatches
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.samples import Row
from creditflow.train.run.failures import DivergedError
from creditflow.train.settings.update import LossAggregation, LossConfig, UpdateConfig

AGGREGATIONS = ("token_mean", "trajectory_mean", "turn_mean", "constant")


@dataclass(frozen=True, slots=True)
class _Rehearsed(World):
    """A rank that hears what the others would tell it."""

    told: tuple[Any, ...] = ()

    def gather(self, value: Any) -> list[Any]:
        return [value if rank == self.rank else other for rank, other in enumerate(self.told)]


@dataclass(frozen=True, slots=True)
class _Listening(World):
    """A rank that tells the test what it would tell the others."""

    heard: tuple[list[Any], ...] = ([],)

    def gather(self, value: Any) -> list[Any]:
        self.heard[0].append(value)
        return [value] * self.size


@st.composite
def batches(draw: st.DrawFn) -> list[Row]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    by_turn, critic = draw(st.booleans()), draw(st.booleans())
    rows = []
    for trajectory in range(draw(st.integers(1, 6))):
        turns = rng.integers(1, 4)
        for part in [[t] for t in range(turns)] if by_turn else [list(range(turns))]:
            turn = np.repeat(np.array(part, np.int32), rng.integers(1, 4, len(part)))
            n = len(turn)
            advantage = rng.normal(size=n) * rng.integers(0, 2)
            value = np.where(rng.random(n) < 0.5, rng.normal(size=n), np.nan) if critic else None
            ids = rng.integers(0, 99, n + rng.integers(1, 5)).astype(np.int32)
            target = np.arange(len(ids) - n, len(ids))
            logprob = rng.normal(size=n).astype(np.float32)
            number = part[0] if by_turn else -1
            rows.append(Row(ids, target, advantage, logprob, turn, trajectory, number, value, value))
    return rows


def config_of(aggregation: LossAggregation, minibatches: int, size: int) -> UpdateConfig:
    loss = LossConfig(aggregation=aggregation, normaliser=7 if aggregation == "constant" else 0)
    return UpdateConfig(minibatches=1 if size else minibatches, minibatch_size=size, minibatch_unit="token", loss=loss)


@settings(max_examples=60)
@given(
    rows=batches(), ranks=st.integers(2, 4), seed=st.integers(0, 99), aggregation=st.sampled_from(AGGREGATIONS),
    minibatches=st.integers(1, 3), size=st.sampled_from([0, 0, 5]),
)  # fmt: skip
def test_every_rank_makes_the_minibatches_of_one_process(
    rows: list[Row], ranks: int, seed: int, aggregation: LossAggregation, minibatches: int, size: int
) -> None:
    config = config_of(aggregation, minibatches, size)
    old = OldLogprobs([row.sampler_logprob for row in rows])
    whole = list(make_minibatches(rows, old, config, aggregation, np.random.default_rng(seed)))
    owner = {t: int(o) for t, o in enumerate(np.random.default_rng(seed).integers(0, ranks, 6))}
    parts = [[row for row in rows if owner[row.trajectory] == rank] for rank in range(ranks)]
    logprobs = [OldLogprobs([row.sampler_logprob for row in part]) for part in parts]
    heard: list[Any] = []
    for rank in range(ranks):
        gather_rows(parts[rank], logprobs[rank], _Listening(0, ranks, heard=(heard,)))
    seen: list[list[Row]] = [[] for _ in whole]
    for rank in range(ranks):
        shared, known = gather_rows(parts[rank], logprobs[rank], _Rehearsed(rank, ranks, told=tuple(heard)))
        mine = list(make_minibatches(shared, known, config, aggregation, np.random.default_rng(seed)))
        assert len(mine) == len(whole)
        for place, (got, expected) in enumerate(zip(mine, whole, strict=True)):
            assert [len(row) for row in got.rows] == [len(row) for row in expected.rows]
            assert [bool(row.advantage.any()) for row in got.rows] == [
                bool(row.advantage.any()) for row in expected.rows
            ]
            assert count_value_targets(got.rows) == count_value_targets(expected.rows)
            assert got.scale == expected.scale
            own = own_rows(got)
            seen[place] += own.rows
            index = {id(row): i for i, row in enumerate(expected.rows)}
            assert own.old is not None
            for row, weight, logprob in zip(own.rows, own.weights, own.old, strict=True):
                np.testing.assert_array_equal(weight, expected.weights[index[id(row)]])
                assert logprob is row.sampler_logprob
    for got_rows, expected in zip(seen, whole, strict=True):
        assert {id(row) for row in got_rows} == {id(row) for row in expected.rows}


def test_one_rank_shares_nothing() -> None:
    row = Row(np.zeros(2, np.int32), np.ones(1, np.int64), np.ones(1), np.ones(1, np.float32), np.zeros(1, np.int32), 0)
    rows, logprobs = [row, replace(row, trajectory=1)], OldLogprobs(None)
    assert gather_rows(rows, logprobs, ALONE) == (rows, logprobs)


def test_a_rank_that_did_not_diverge_raises_the_error_of_the_one_that_did() -> None:
    with pytest.raises(DivergedError, match="the loss is nan") as caught:
        _Rehearsed(0, 2, told=(None, ["the loss is nan", [3, 1]])).diverge_together(lambda: 1)
    assert caught.value.trajectories == [1, 3]
