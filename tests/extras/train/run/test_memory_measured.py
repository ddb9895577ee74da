"""Estimated memory against a tiny model on a CPU: exact for what stays, above what autograd stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.pretrained import pretrained_folder
from helpers.models.training_runs import Make
from transformers import AutoModelForCausalLM

from creditflow.train.policy.network.options import autocast, recompute_activations
from creditflow.train.policy.packing.attention import PackedForest, packed_hidden
from creditflow.train.policy.packing.forest import Forest
from creditflow.train.run.estimate import ModelSizes, activation_bytes, trained_bytes

TOKENS = 192


def size(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize(
    "settings",
    [
        ("update.loss.kl_weight=0.1",),
        ("credit.scheme=ppo_gae", "critic.kind=separate"),
        ("model.lora.rank=4", "update.loss.kl_weight=0.1"),
        ("model.lora.rank=4", "model.lora.base_dtype=bfloat16", "model.lora.target_modules=[q_proj, down_proj]"),
    ],
    ids=",".join,
)
def test_weights_gradients_and_moments_are_exact(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path, settings: tuple[str, ...]
) -> None:
    if "lora" in "".join(settings):
        pytest.importorskip("peft", reason="needs the extra [lora]")
    data = config | {"model": {"path": str(pretrained_folder(tmp_path / "base"))}, "sft": {"episodes": 0}}
    # every weight gets a gradient from the entropy
    run = trainer_of(data, "update.iterations=1", "update.loss.entropy_weight=0.5", *settings)
    run.run()
    sizes = ModelSizes.of(run.model)
    assert sizes is not None

    def moments(parameters: list[Any]) -> int:
        state = run.optimizer.state
        return size(state[p][name] for p in parameters for name in ("exp_avg", "exp_avg_sq") if p in state)

    held = size(run.model.parameters())
    for trunk in (run.model, run.critic.trunk if run.critic is not None else None):
        trained = [p for p in trunk.parameters() if p.requires_grad] if trunk is not None else []
        held += size(trained) + moments(trained)
    if run.critic is not None and run.critic.trunk is not None:
        held += size(run.critic.trunk.parameters())
    lora = "lora" in "".join(settings)
    if run.reference is not None and not lora:
        held += size(run.reference.parameters())
    assert trained_bytes(sizes, run.settings) == held


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_the_number_of_parameters_is_the_models(tmp_path: Path, family: str) -> None:
    for tied in (True, False):
        folder = pretrained_folder(tmp_path / f"{family}{tied}", architecture=family, tied=tied)
        model = AutoModelForCausalLM.from_pretrained(folder)
        sizes = ModelSizes.of(model)
        assert sizes is not None
        assert sizes.parameters == sum(p.numel() for p in model.parameters())
        assert sizes.decoder == sum(p.numel() for p in model.get_decoder().parameters())


def stored_bytes(model: Any, precision: str, *, packed: bool = False) -> int:
    """Bytes that autograd stores in a forward pass of the decoder, without parameters, shared storages once.

    Packed rows share prompts, as many of them as fit the number of tokens.
    """
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.from_numpy(np.random.default_rng(0).integers(5, 270, (4, TOKENS // 4)))
    prompt, responses = ids[0], torch.arange(9 * TOKENS // 12).view(9, -1) % 270
    forest = Forest.of([torch.cat([prompt, one]).numpy() for one in responses])
    assert len(forest) == TOKENS
    model.train()
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        autocast(precision, torch.device("cpu")),
    ):
        if packed:
            one, positions = (torch.from_numpy(values)[None] for values in (forest.ids, forest.positions))
            hidden = packed_hidden(model.get_decoder(), one, positions, PackedForest(forest, ids.device))
        else:
            hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
    assert hidden.requires_grad
    return sum(storages.values())


@pytest.mark.parametrize(
    ("precision", "lora"),
    [("float32", False), ("float32", True), ("autocast", False), ("autocast", True), ("bfloat16", True)],
)
@pytest.mark.parametrize("checkpointing", [False, True], ids=["stored", "checkpointed"])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_activations_are_estimated_from_above_and_by_less_than_twice(
    tmp_path: Path, *, family: str, lora: bool, precision: str, checkpointing: bool, packed: bool
) -> None:
    folder = pretrained_folder(
        tmp_path / "base", hidden=128, intermediate=448, heads=4, kv_heads=2, layers=6, architecture=family
    )
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa", dtype=dtype)
    if lora:
        pytest.importorskip("peft", reason="needs the extra [lora]")
        from creditflow.train.policy.network.adapter import add_adapter
        from creditflow.train.settings.model import LoraSettings

        add_adapter(model, LoraSettings(rank=4), 0)
    if checkpointing:
        recompute_activations(model)
    sizes = ModelSizes.of(model)
    assert sizes is not None
    number = 2 if precision == "autocast" and not lora else 4
    casts = 2 * sizes.parameters if precision == "autocast" else 0
    estimate = activation_bytes(sizes, TOKENS, number, checkpointing=checkpointing) + casts
    measured = stored_bytes(model, "bfloat16" if precision == "autocast" else "none", packed=packed)
    assert measured <= estimate
    if not checkpointing:  # with it, the block that is computed again is not stored in the forward pass
        assert estimate < 2 * measured
