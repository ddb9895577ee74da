"""One step of a vision-language policy: what the sampler reported is what the update computes; pictures are read, and learnt from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.toy_config import toy_vision_config

from creditflow.agents.models.vision import decoder_of
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.samples import Row, make_rows
from creditflow.train.policy.sft import sft_rows
from creditflow.wrappers.credit.base import Credit

PLAYS = ("prompting.history=window", "prompting.history=append")


def rows_of(groups: Any, **options: Any) -> list[Row]:
    return make_rows(groups, [Credit.of(group, outcome=np.ones(len(group))) for group in groups], **options)


def forward(model: Any, rows: list[Row], budget: int = 4096) -> list[Any]:
    """Log-probabilities of every row's target tokens, as the update computes them."""
    from creditflow.train.policy.batching import split_by_row

    out: dict[int, Any] = {}
    model.train()
    for batch in batches_of(rows, budget, "cpu"):
        with torch.no_grad():
            out |= dict(split_by_row(token_logprobs(model, batch).logprob, batch, rows))
    return [out[i] for i in range(len(rows))]


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("row_layout", ["trajectory", "turn"])
def test_log_probabilities_of_the_sampler_are_those_of_the_update(
    tmp_path: Path,
    architecture: str,
    play: str,
    row_layout: str,
    policy_of: Callable[..., Any],
    groups_of: Callable[..., Any],
) -> None:
    settings, model, tokenizer = policy_of(toy_vision_config(tmp_path, architecture), play)
    groups = groups_of(settings, model, tokenizer)
    rows = rows_of(groups, row_layout=row_layout)
    assert max(len(row.pictures) for row in rows) > (play == PLAYS[1])
    assert len({row.pictures[-1].name for row in rows}) > 2
    for row, computed in zip(rows, forward(model, rows), strict=True):
        np.testing.assert_allclose(computed, row.sampler_logprob, atol=2e-5)


def test_image_tokens_are_observations(
    vision_config: dict[str, Any], policy_of: Callable[..., Any], groups_of: Callable[..., Any]
) -> None:
    settings, model, tokenizer = policy_of(vision_config, PLAYS[1])
    groups = groups_of(settings, model, tokenizer)
    for trajectory in (one for group in groups for one in group.trajectories):
        tokens = trajectory.tokens
        image = tokens.ids == tokens.pictures[0][0].token
        assert image.sum() == sum(picture.length for turn in tokens.pictures for picture in turn) > 0
        assert not tokens.mask[image].any()
    for row in sft_rows(groups):
        assert not (row.ids[row.target] == row.pictures[0].token).any()
        assert len(row.target) > 1


def test_rows_of_texts_and_of_pictures_share_a_micro_batch(
    tmp_path: Path, architecture: str, policy_of: Callable[..., Any], groups_of: Callable[..., Any]
) -> None:
    settings, model, tokenizer = policy_of(toy_vision_config(tmp_path, architecture), PLAYS[1])
    pictures = rows_of(groups_of(settings, model, tokenizer))
    ids = np.asarray(tokenizer.encode("up down left right left", add_special_tokens=False), np.int32)
    texts = [
        replace(pictures[0], ids=ids[:n], target=np.arange(1, n), pictures=(), turn=np.zeros(n - 1, np.int32))
        for n in range(2, len(ids))
    ]
    mixed = [row for pair in zip(pictures, texts, strict=False) for row in pair]
    together, alone = forward(model, mixed), [forward(model, [row])[0] for row in mixed]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_the_picture_decides_what_the_policy_does(
    vision_config: dict[str, Any], policy_of: Callable[..., Any], groups_of: Callable[..., Any]
) -> None:
    settings, model, tokenizer = policy_of(vision_config)
    rows = rows_of(groups_of(settings, model, tokenizer))
    one = rows[0]
    other = next(row for row in rows if row.pictures[0].name != one.pictures[0].name and len(row) == len(one))
    swapped = replace(one, pictures=other.pictures)
    assert np.abs(forward(model, [one])[0] - forward(model, [swapped])[0]).max() > 1e-3


@pytest.mark.parametrize("frozen", [False, True])
def test_the_gradient_reaches_the_vision_tower_unless_it_is_frozen(
    tmp_path: Path, architecture: str, frozen: bool, policy_of: Callable[..., Any], groups_of: Callable[..., Any]
) -> None:
    settings, model, tokenizer = policy_of(
        toy_vision_config(tmp_path, architecture), f"model.freeze_vision={str(frozen).lower()}"
    )
    rows = rows_of(groups_of(settings, model, tokenizer))
    for batch in batches_of(rows, 4096, "cpu"):
        token_logprobs(model, batch).logprob.sum().backward()
    for name, parameter in model.model.visual.named_parameters():
        moved = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0.0)
        assert moved != frozen, name
    assert model.model.language_model.layers[0].mlp.up_proj.weight.grad.abs().sum() > 0.0


def test_rows_whose_pictures_are_missing_or_too_many_are_errors(
    vision_config: dict[str, Any], policy_of: Callable[..., Any], groups_of: Callable[..., Any]
) -> None:
    settings, model, tokenizer = policy_of(vision_config)
    row = rows_of(groups_of(settings, model, tokenizer))[0]
    with pytest.raises(DataError, match="image tokens without pictures"):
        forward(model, [replace(row, pictures=())])
    with pytest.raises(DataError, match=r"its 2 pictures stand for"):
        forward(model, [replace(row, pictures=row.pictures * 2)])
    with pytest.raises(ConfigError, match=r"use update\.packing=padded"):
        list(batches_of([row], 4096, "cpu", "packed"))


def test_a_language_model_refuses_rows_with_pictures(
    config: dict[str, Any], vision_config: dict[str, Any], policy_of: Callable[..., Any], groups_of: Callable[..., Any]
) -> None:
    row = rows_of(groups_of(*policy_of(vision_config)))[0]
    _, text_model, _ = policy_of(config)
    shown = row.ids == row.pictures[0].token
    within = replace(
        row,
        ids=np.where(shown, 250, np.minimum(row.ids, 249)).astype(np.int32),
        pictures=tuple(replace(picture, token=250) for picture in row.pictures),
    )
    with pytest.raises(ConfigError, match="Qwen2Model cannot read"):
        forward(text_model, [within])
    assert decoder_of(text_model) is text_model.get_decoder()
