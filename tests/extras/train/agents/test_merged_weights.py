"""Merging an adapter into its base needs little more memory than the merged weights."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.models.pretrained import pretrained_folder

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.agents.models.lora import lora_layers, merged_weights
from creditflow.train.policy.network.adapter import add_adapter
from creditflow.train.settings.model import LoraSettings

pytest.importorskip("peft", reason="needs the extra [lora]")
pytestmark = pytest.mark.lora


def test_merging_holds_one_product_of_an_adapter_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together have the size of the base in float32, which a GPU that trains an adapter need not hold."""
    from peft.tuners.lora.layer import Linear

    model, _ = open_pretrained(str(pretrained_folder(tmp_path / "base")), device="cpu")
    add_adapter(model, LoraSettings(rank=4), seed=0)
    real, made = Linear.get_delta_weight, list[weakref.ref[torch.Tensor]]()

    def counted(self: Any, name: str) -> torch.Tensor:
        assert not torch.is_grad_enabled()
        assert not any(one() is not None for one in made)
        product: torch.Tensor = real(self, name)
        made.append(weakref.ref(product))
        return product

    monkeypatch.setattr(Linear, "get_delta_weight", counted)
    merged_weights(model)
    assert len(made) == len(lora_layers(model)) > 0
