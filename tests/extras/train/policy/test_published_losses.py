"""Published objectives against their equations in a few lines: GSPO, ratios of turns, Dr. GRPO, DAPO's average.

The reference takes logits from the model's own forward pass, one row at a time, and differentiates the equation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.policy.losses import LossConfig, segment_log_ratio, token_losses
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.optimizer import make_optimizer
from creditflow.train.policy.samples import Row, ratio_segments
from creditflow.train.policy.update import update_policy
from creditflow.train.settings.update import LossAggregation, UpdateConfig

Logprobs = list[torch.Tensor]
CLIP_LOW, CLIP_HIGH = 0.01, 0.02  # some ratios below are clipped, others are not


@pytest.fixture(scope="module")
def model() -> Any:
    config = ScratchConfig(hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=280, init=0.2)
    return build_model(config, build_tokenizer(["Pa1 Oa2 Xa3 up down"] * 4, config), seed=3)


@pytest.fixture
def rows() -> list[Row]:
    """Five trajectories of one to three turns, of unequal lengths, with one advantage per turn."""
    rng = np.random.default_rng(5)
    found = []
    for i, turns in enumerate([[0] * 7, [0, 0, 1], [0, 1, 1, 1, 2], [0] * 2, [0, 0, 0, 2, 2, 2]]):
        turn, n = np.array(turns, np.int32), len(turns)
        advantage = rng.normal(size=3)[turn]
        target = np.arange(3, 3 + n)
        ids = rng.integers(5, 270, n + 4).astype(np.int32)
        found.append(Row(ids, target, advantage, np.full(n, -5.0, np.float32), turn, i))
    return found


def logprobs_of(model: Any, rows: list[Row]) -> Logprobs:
    out = []
    for row in rows:
        ids = torch.from_numpy(row.ids.astype(np.int64))
        table = torch.log_softmax(model(input_ids=ids[None]).logits[0].float(), -1)
        target = torch.from_numpy(row.target)
        out.append(table[target - 1, ids[target]])
    return out


def surrogate(ratio: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * advantage)


def by_turn(row: Row, logprob: torch.Tensor, old: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """(mean log-ratio, advantage, tokens) of every turn of a row."""
    turns = [torch.from_numpy(row.turn == turn) for turn in sorted(set(row.turn.tolist()))]
    advantage = torch.from_numpy(row.advantage).float()
    return [((logprob - old)[one].mean(), advantage[one][0], int(one.sum())) for one in turns]


def gspo(rows: list[Row], now: Logprobs, old: Logprobs) -> torch.Tensor:
    """GSPO eqs. 5 to 7 (one advantage per sequence): the mean over sequences of the clipped sequence ratio."""
    losses = [
        surrogate((a - b).mean().exp(), torch.tensor(float(row.advantage[0])))
        for row, a, b in zip(rows, now, old, strict=True)
    ]
    return torch.stack(losses).mean()


def turn_level(rows: list[Row], now: Logprobs, old: Logprobs) -> torch.Tensor:
    """The mean over trajectories of the mean over turns of the clipped turn ratio."""
    losses = [
        torch.stack([surrogate(mean.exp(), advantage) for mean, advantage, _ in by_turn(row, a, b)]).mean()
        for row, a, b in zip(rows, now, old, strict=True)
    ]
    return torch.stack(losses).mean()


def dr_grpo(rows: list[Row], now: Logprobs, old: Logprobs) -> torch.Tensor:
    """Dr. GRPO: the sum of token losses over (responses × longest response)."""
    losses = [
        surrogate((a - b).exp(), torch.from_numpy(row.advantage).float()).sum()
        for row, a, b in zip(rows, now, old, strict=True)
    ]
    return torch.stack(losses).sum() / (len(rows) * 16)


def dapo(rows: list[Row], now: Logprobs, old: Logprobs) -> torch.Tensor:
    """DAPO eq. 8: the mean over all tokens."""
    losses = [
        surrogate((a - b).exp(), torch.from_numpy(row.advantage).float())
        for row, a, b in zip(rows, now, old, strict=True)
    ]
    return torch.cat(losses).mean()


OBJECTIVES: dict[str, tuple[Callable[..., torch.Tensor], dict[str, Any], LossAggregation]] = {
    "gspo": (gspo, {"ratio": "sequence"}, "trajectory_mean"),
    "turn": (turn_level, {"ratio": "turn"}, "turn_mean"),
    "dr_grpo": (dr_grpo, {"aggregation": "constant", "normaliser": 16}, "constant"),
    "dapo": (dapo, {}, "token_mean"),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("packing", [{"batch_tokens": 24}, {"packing": "packed", "batch_tokens": 4096}], ids=str)
def test_loss_and_gradient_are_those_of_the_equation(
    model: Any, rows: list[Row], name: str, packing: dict[str, Any]
) -> None:
    reference, loss, aggregation = OBJECTIVES[name]
    if name == "gspo":  # its advantage is one number per response
        rows = [replace(row, advantage=np.full(len(row.target), row.advantage[0])) for row in rows]
    rng = np.random.default_rng(1)
    with torch.no_grad():
        old = [
            one + torch.from_numpy(rng.normal(0.0, 0.05, 3)[row.turn] + rng.normal(0.0, 0.01, len(one))).float()
            for row, one in zip(rows, logprobs_of(model, rows), strict=True)
        ]
    model.zero_grad()
    expected = reference(rows, logprobs_of(model, rows), old)
    expected.backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()

    config = UpdateConfig(
        loss=LossConfig(clip_low=CLIP_LOW, clip_high=CLIP_HIGH, dual_clip=0.0, importance_cap=0.0, **loss), **packing
    )
    optimizer = make_optimizer(model, config.optimizer)
    found: list[torch.Tensor] = []
    optimizer.step = lambda: found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    norm = float(gradient.norm())
    metrics = update_policy(
        model, optimizer, rows, OldLogprobs([one.numpy() for one in old]), config,
        aggregation=aggregation, temperature=1.0, lr=1e-3, rng=rng,
    )  # fmt: skip
    assert metrics["loss"] == pytest.approx(float(expected.detach()), rel=1e-4)
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-3)
    assert 0.0 < metrics["clip_fraction"] < 1.0
    scale = min(1.0, 1.0 / norm)  # the gradient that the optimiser sees is clipped
    torch.testing.assert_close(found[0], gradient * scale, rtol=1e-3, atol=2e-6)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 2**31))
def test_every_token_has_the_ratio_of_its_segment_and_the_gradient_of_its_own_log_probability(
    sizes: list[int], seed: int
) -> None:
    sizes = [size + 1 for size in sizes]
    rng = np.random.default_rng(seed)
    segment = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    log_ratio = torch.from_numpy(rng.normal(0.0, 0.1, sum(sizes))).requires_grad_()
    out = segment_log_ratio(log_ratio, segment)
    means = [float(part.mean()) for part in log_ratio.detach().split(sizes)]
    torch.testing.assert_close(out.detach(), torch.tensor(means, dtype=torch.float64)[segment])
    out.sum().backward()
    torch.testing.assert_close(log_ratio.grad, torch.ones_like(log_ratio))


def test_segments_of_single_tokens_are_ratios_of_tokens() -> None:
    now, old, advantage = (torch.linspace(a, b, 6) for a, b in ((-3.0, -1.0), (-2.9, -1.2), (-1.0, 1.0)))
    plain = token_losses(now, now, old, advantage, LossConfig())
    split = token_losses(now, now, old, advantage, LossConfig(), segment=torch.arange(6))
    torch.testing.assert_close(split["loss"], plain["loss"])


def test_segments_are_the_turns_and_rows_of_a_micro_batch(rows: list[Row]) -> None:
    assert ratio_segments(rows, "token") is None
    turns, sequences = ratio_segments(rows[1:4], "turn"), ratio_segments(rows[1:4], "sequence")
    assert turns is not None and turns.tolist() == [0, 0, 1, 2, 3, 3, 3, 4, 5, 5]
    assert sequences is not None and sequences.tolist() == [0] * 3 + [1] * 5 + [2] * 2


def test_the_ratio_of_a_sequence_is_rejected_where_rows_are_turns(
    rows: list[Row], config: dict[str, Any], settings_of: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigError, match="use ratio: turn"):
        ratio_segments([replace(rows[0], turn_index=0)], "sequence")
    for override in ("update.row_layout=turn", "prompting.history=window"):
        with pytest.raises(ConfigError, match="use ratio: turn"):
            settings_of(config, "update.loss.ratio=sequence", override)
    settings_of(config, "update.loss.ratio=sequence")


@pytest.mark.parametrize("wrong", [{"aggregation": "constant"}, {"normaliser": 100}])
def test_a_constant_normaliser_is_given_with_its_aggregation(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"loss\.normaliser"):
        LossConfig(**wrong)


def test_averages_of_two_responses_worked_out_by_hand() -> None:
    """Lengths 2 and 8, losses +1 and −1 a token, constant 10: −.6 by token, 0 by response, −.3 by Dr. GRPO."""
    from creditflow.train.policy.update import make_minibatches

    two = [
        Row(
            np.zeros(n + 1, np.int32),
            np.arange(1, n + 1),
            np.zeros(n),
            np.zeros(n, np.float32),
            np.zeros(n, np.int32),
            i,
        )
        for i, n in enumerate([2, 8])
    ]
    sign = np.array([1.0] * 2 + [-1.0] * 8)
    expected_losses: dict[LossAggregation, float] = {"token_mean": -0.6, "trajectory_mean": 0.0, "constant": -0.3}
    for aggregation, expected in expected_losses.items():
        config = UpdateConfig(loss=LossConfig(aggregation=aggregation, normaliser=10 * (aggregation == "constant")))
        [minibatch] = make_minibatches(two, OldLogprobs(None), config, aggregation, np.random.default_rng(0))
        assert minibatch.scale * (np.concatenate(minibatch.weights) * sign).sum() == pytest.approx(expected)
