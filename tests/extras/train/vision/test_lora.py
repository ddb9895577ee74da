"""A LoRA adapter of a vision-language model: its base sees the same pictures, and a frozen tower has no trained adapter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from creditflow.agents.models.lora import lora_layers
from creditflow.agents.models.pictures import save_tokenizer
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.network.adapter import BasePolicy
from creditflow.train.policy.samples import make_rows
from creditflow.wrappers.credit.base import Credit

pytest.importorskip("peft", reason="needs the extra [lora]")
pytestmark = pytest.mark.lora
TUNED = ("model.lora.rank=2", "sft.episodes=0", "update.loss.entropy_weight=0.5", "env.options.reward=gym_sokoban")


@pytest.fixture
def data(tmp_path: Path, vision_config: dict[str, Any], policy_of: Callable[..., Any]) -> dict[str, Any]:
    _, model, tokenizer = policy_of(vision_config)
    model.save_pretrained(tmp_path / "base")
    save_tokenizer(tokenizer, tmp_path / "base")
    return vision_config | {"model": {"path": str(tmp_path / "base")}}


def test_the_reference_of_an_adapter_reads_the_pictures(
    data: dict[str, Any], trainer_of: Callable[..., Any], groups_of: Callable[..., Any]
) -> None:
    run = trainer_of(data, *TUNED)
    groups = groups_of(run.settings, run.model, run.tokenizer)
    rows = make_rows(groups, [Credit.of(group, outcome=np.ones(len(group))) for group in groups])
    run.run()
    assert any(
        bool(p.abs().sum() > 0.0) for name, p in run.model.named_parameters() if "visual" in name and "lora_B" in name
    )
    for batch in batches_of(rows, 2048, "cpu"):
        sampled = np.concatenate([rows[i].sampler_logprob for i in batch.rows])  # before the adapter was trained
        with torch.no_grad():
            base = token_logprobs(BasePolicy(run.model), batch).logprob.numpy()
            tuned = token_logprobs(run.model, batch).logprob.numpy()
        np.testing.assert_allclose(base, sampled, atol=2e-5)
        assert np.abs(tuned - sampled).max() > 1e-3


def test_a_frozen_tower_has_no_trained_adapter(data: dict[str, Any], trainer_of: Callable[..., Any]) -> None:
    run = trainer_of(data, *TUNED, "model.freeze_vision=true")
    run.run()
    assert any("visual" in name for name, _ in lora_layers(run.model))
    for name, parameter in run.model.named_parameters():
        if "visual" in name:
            assert not parameter.requires_grad
            assert "lora_B" not in name or not bool(parameter.any())
