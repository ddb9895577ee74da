"""Settings that must not matter give equal losses and gradients: splits, packing, layouts, chunks, checkpointing."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from creditflow.train.policy.batching import Packing, batches_of, plan_rows, to_batch
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.losses import LossConfig
from creditflow.train.policy.network.options import recompute_activations
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.policy.old_logprobs import OldLogprobs, compute_logprobs
from creditflow.train.policy.optimizer import make_optimizer
from creditflow.train.policy.samples import Row, token_weights
from creditflow.train.policy.update import update_policy
from creditflow.train.settings.schema import UpdateConfig

PACKINGS: tuple[Packing, ...] = ("padded", "packed")
TEXTS = ["Pa1 Oa2 Xa3", "up down left right"] * 4


@pytest.fixture(params=["qwen2", "qwen3"])
def model(request: pytest.FixtureRequest) -> Any:
    config = ScratchConfig(
        architecture=request.param, hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, vocabulary=280, init=0.2
    )
    return build_model(config, build_tokenizer(TEXTS, config), seed=3)


@pytest.fixture
def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    out = []
    for i, length in enumerate([7, 30, 12, 12, 25, 3]):
        target = np.sort(rng.choice(np.arange(1, length), size=max(1, length // 3), replace=False))
        n = len(target)
        out.append(
            Row(
                rng.integers(5, 270, length).astype(np.int32),
                target,
                rng.normal(size=n),
                np.full(n, -5.0, np.float32),
                np.zeros(n, np.int32),
                i,
            )
        )
    return out


def gradient(model: Any, rows: list[Row], **settings: Any) -> tuple[dict[str, float], torch.Tensor]:
    """Statistics and gradient of one update on ``rows``."""
    config = UpdateConfig(iterations=1, **settings)
    optimizer = make_optimizer(model, config.optimizer)
    captured: list[torch.Tensor] = []
    optimizer.step = lambda: captured.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    stats = update_policy(
        model, optimizer, rows, OldLogprobs(None), config, aggregation="trajectory_mean", temperature=1.0, lr=1e-3,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    return stats, captured[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"packing": "padded", "batch_tokens": 30},
        {"packing": "padded", "batch_tokens": 64},
        {"packing": "packed", "batch_tokens": 4096},
        {"packing": "packed", "batch_tokens": 40},
        {"packing": "packed", "logits_chunk": 3},
        {"packing": "padded", "logits_chunk": 3},
    ],
    ids=str,
)
def test_splits_packing_and_chunks_do_not_change_the_gradient(
    model: Any, rows: list[Row], settings: dict[str, Any]
) -> None:
    plain, expected = gradient(model, rows, packing="padded")
    stats, found = gradient(model, rows, **settings)
    assert stats["loss"] == pytest.approx(plain["loss"], rel=1e-5, abs=1e-7)
    assert stats["entropy"] == pytest.approx(plain["entropy"], rel=1e-5)
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("packing", PACKINGS)
def test_gradient_checkpointing_does_not_change_the_gradient(model: Any, rows: list[Row], packing: Packing) -> None:
    _, expected = gradient(model, rows, packing=packing)
    recompute_activations(model)
    assert any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
    _, found = gradient(model, rows, packing=packing)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["activation", "gradient"])
def test_recomputation_is_enabled_by_the_method_that_the_release_of_transformers_has(name: str) -> None:
    class Model:
        """A model of one release; newer releases keep the older method, with a warning."""

        def __init__(self) -> None:
            self.calls: list[dict[str, Any]] = []
            if name == "activation":
                self.activation_checkpointing_enable = lambda **settings: self.calls.append(settings)

        def gradient_checkpointing_enable(self, **settings: Any) -> None:
            if name == "activation":
                warnings.warn("renamed", FutureWarning, stacklevel=2)
            self.calls.append(settings)

    model = Model()
    recompute_activations(model)
    assert model.calls == [{f"{name}_checkpointing_kwargs": {"use_reentrant": False}}]


def test_rows_without_gradient_are_skipped_without_changing_it(model: Any, rows: list[Row]) -> None:
    zeroed = [replace(row, advantage=np.zeros(len(row.target))) if i % 2 else row for i, row in enumerate(rows)]
    stats, found = gradient(model, zeroed)
    assert stats["tokens"] == sum(len(row) for row in rows[::2])
    # with an entropy weight nothing may be skipped; a weight too small to matter shows the gradient is the same
    whole, expected = gradient(model, zeroed, loss=LossConfig(entropy_weight=1e-30))
    assert whole["tokens"] == sum(map(len, rows))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_means_over_tokens_are_of_the_rows_that_were_computed(model: Any, rows: list[Row]) -> None:
    """The entropy of a policy does not fall because fewer groups have a learning signal."""
    zeroed = [replace(row, advantage=np.zeros(len(row.target))) if i % 2 else row for i, row in enumerate(rows)]
    stats, _ = gradient(model, zeroed)
    alone, _ = gradient(model, zeroed[::2])
    assert stats["entropy"] == pytest.approx(alone["entropy"], rel=1e-5)
    assert 2 * stats["loss"] == pytest.approx(
        alone["loss"], rel=1e-5
    )  # half of the trajectories have half of the weight


def test_the_fraction_of_truncated_weights_is_of_the_tokens_that_were_computed(model: Any, rows: list[Row]) -> None:
    """Of the rows with a learning signal, some tokens were unlikely for the sampler: their weights are above the cap."""
    logprobs = compute_logprobs(model, rows, UpdateConfig(), temperature=1.0)
    live = [replace(row, sampler_logprob=one - 3.0 * (np.arange(len(one)) % 3 == 1).astype(np.float32))
            for row, one in zip(rows, logprobs, strict=True)][::2]  # fmt: skip
    dead = [replace(row, advantage=np.zeros(len(row.target))) for row in rows[1::2]]
    above = np.concatenate([np.arange(len(row.target)) % 3 == 1 for row in live])
    expected = float(np.average(above, weights=np.concatenate(token_weights(live, "trajectory_mean"))))
    for batch in (live, live + dead):
        stats, _ = gradient(model, batch, loss=LossConfig(importance_cap=2.0))
        assert 0.1 < expected < 0.4
        assert stats["importance_truncated"] == pytest.approx(expected, rel=1e-5)


def test_turn_rows_give_the_gradient_of_the_whole_trajectory(model: Any) -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(5, 270, 20).astype(np.int32)
    target, turn = np.array([4, 5, 11, 18, 19]), np.array([0, 0, 1, 2, 2], np.int32)
    advantage, logprob = rng.normal(size=5), np.full(5, -4.0, np.float32)
    whole = [Row(ids, target, advantage, logprob, turn, 0)]
    parts = [
        Row(ids[: target[turn == k][-1] + 1], target[turn == k], advantage[turn == k], logprob[turn == k],
            turn[turn == k], 0)
        for k in range(3)
    ]  # fmt: skip
    _, expected = gradient(model, whole)
    _, found = gradient(model, parts)
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-6)


def test_chunked_logprobs_are_those_of_whole_logits(model: Any, rows: list[Row]) -> None:
    for row in rows:
        logits = model(input_ids=torch.from_numpy(row.ids.astype(np.int64))[None]).logits[0].float() / 0.7
        whole = torch.log_softmax(logits, -1)
        [batch] = batches_of([row], 1000, torch.device("cpu"))
        scores = token_logprobs(model, batch, temperature=0.7, logits_chunk=2)
        at = torch.from_numpy(row.target)
        expected = whole[at - 1, torch.from_numpy(row.ids[row.target].astype(np.int64))]
        torch.testing.assert_close(scores.logprob, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(scores.entropy, -(whole.exp() * whole).sum(-1)[at - 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("minibatches", [1, 3])
def test_the_first_ratio_is_exactly_one(model: Any, rows: list[Row], minibatches: int, packing: Packing) -> None:
    config = UpdateConfig(iterations=1, epochs=2, minibatches=minibatches, batch_tokens=40, packing=packing)
    old = compute_logprobs(model, rows, config, temperature=1.0)
    stats = update_policy(
        model, make_optimizer(model, config.optimizer), rows, OldLogprobs(old), config, aggregation="token_mean",
        temperature=1.0, lr=1e-3, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert stats["steps"] == 2 * minibatches
    if minibatches == 1:
        assert stats["first_step_ratio_deviation"] == 0.0
    else:  # other neighbours in the micro-batches: equal up to rounding
        assert stats["first_step_ratio_deviation"] < 1e-5


def test_budgets_hold_and_every_row_is_in_one_batch(rows: list[Row]) -> None:
    for packing in PACKINGS:
        for budget in (1, 30, 47, 1000):
            batches = plan_rows(rows, budget, packing)
            assert sorted(i for batch in batches for i in batch) == list(range(len(rows)))
            for batch in batches:
                assert to_batch(rows, batch, torch.device("cpu"), packing).tokens <= budget or len(batch) == 1


def test_weights_of_an_update_sum_to_one(rows: list[Row]) -> None:
    assert sum(float(w.sum()) for w in token_weights(rows, "turn_mean")) == pytest.approx(1.0)


def test_approx_kl_is_estimated_from_samples_of_the_old_policy(model: Any, rows: list[Row]) -> None:
    config = UpdateConfig(iterations=1)
    shift = 0.5  # log-probability of the new policy minus that of the old one, on every token
    new = compute_logprobs(model, rows, config, temperature=1.0)
    stats = update_policy(
        model, make_optimizer(model, config.optimizer), rows, OldLogprobs([one - shift for one in new]), config,
        aggregation="token_mean", temperature=1.0, lr=1e-3, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert stats["approx_kl"] == pytest.approx(np.expm1(shift) - shift, rel=1e-4)  # (ratio - 1) - log ratio
