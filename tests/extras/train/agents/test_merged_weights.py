"""Merging an adapter into its base needs little more memory than the merged weights."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.models.pretrained import pretrained_folder

from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.agents.models.lora import has_adapter, lora_layers, merge_adapter, merged_weights
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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_merged_model_computes_what_the_adapter_did_and_has_none(dtype: str, tmp_path: Path) -> None:
    model, _ = open_pretrained(str(pretrained_folder(tmp_path / "base")), device="cpu", dtype=dtype)
    add_adapter(model, LoraSettings(rank=4), seed=0)
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        for _, layer in lora_layers(model):
            layer.lora_B["default"].weight.normal_(std=0.1, generator=torch.Generator().manual_seed(0))
        expected = model(input_ids=ids).logits.float()
        merge_adapter(model)
        found = model(input_ids=ids).logits.float()
    assert not has_adapter(model)
    torch.testing.assert_close(found, expected, **({"rtol": 0.1, "atol": 0.1} if dtype == "bfloat16" else {}))


def test_the_sampler_of_a_float32_base_has_the_adapter_in_its_weights(tmp_path: Path) -> None:
    model, _ = open_pretrained(str(pretrained_folder(tmp_path / "base")), device="cpu")
    add_adapter(model, LoraSettings(rank=4), seed=0)
    backend = TransformersBackend(model)
    assert not has_adapter(backend.model) and has_adapter(model)
    with torch.no_grad():
        for _, layer in lora_layers(model):
            layer.lora_B["default"].weight.normal_(std=0.1, generator=torch.Generator().manual_seed(0))
    backend.sync()
    ids = torch.arange(5, 25)[None]
    torch.testing.assert_close(backend.model(input_ids=ids).logits, model.eval()(input_ids=ids).logits)
