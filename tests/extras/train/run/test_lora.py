"""Training with a LoRA adapter: what is trained, saved, resumed, exported, pushed and refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.pretrained import pretrained_folder
from helpers.models.training_runs import Make, metrics, same, weights
from safetensors.torch import load_file, save_file

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.agents.models.lora import ADAPTER_WEIGHTS, adapter_disabled, has_adapter, lora_layers, merged_weights
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.policy.checkpoint import latest_checkpoint
from creditflow.train.settings.update import UpdateConfig

pytest.importorskip("peft", reason="needs the extra [lora]")
pytestmark = pytest.mark.lora

# an untrained model never succeeds: the entropy bonus gives it a gradient
LORA = ("model.lora.rank=4", "model.lora.alpha=8", "update.loss.entropy_weight=0.5")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return pretrained_folder(tmp_path / "base")


@pytest.fixture
def data(config: dict[str, Any], base: Path) -> dict[str, Any]:
    return config | {"model": {"path": str(base)}, "sft": config["sft"] | {"episodes": 0}}


def logits_of(model: Any, seed: int = 0) -> torch.Tensor:
    ids = torch.from_numpy(np.random.default_rng(seed).integers(5, 270, (2, 9)))
    model.eval()
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=ids).logits
    return found


def base_weights(run: Any) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in weights(run).items() if "lora_" not in name}


def test_only_the_adapter_is_trained_checkpointed_and_given_moments(trainer_of: Make, data: dict[str, Any]) -> None:
    run = trainer_of(data, *LORA)
    before, start = base_weights(run), weights(run)
    run.run()
    assert same(base_weights(run), before)
    assert not same(weights(run), start)
    rank, hidden, wide, kv = 4, 64, 128, 32
    pairs = [(hidden, hidden), (hidden, kv), (hidden, kv), (hidden, hidden), *[(hidden, wide)] * 2, (wide, hidden)]
    count = 2 * sum(rank * (a + b) for a, b in pairs)  # two layers
    checkpoint = latest_checkpoint(run.checkpoints)
    assert checkpoint is not None
    saved = load_file(checkpoint / "weights.safetensors")
    assert all("lora_" in name for name in saved)
    assert sum(tensor.numel() for tensor in saved.values()) == count
    moments = load_file(checkpoint / "optimiser.safetensors")
    assert sum(tensor.numel() for name, tensor in moments.items() if "exp_avg" in name) == 2 * count


@pytest.mark.parametrize(
    "settings", [(), ("update.loss.kl_weight=0.1",), ("sft.episodes=24", "model.lora.dropout=0.2")], ids=",".join
)
def test_a_resumed_run_repeats_the_uninterrupted_one(
    trainer_of: Make, data: dict[str, Any], settings: tuple[str, ...], tmp_path: Path
) -> None:
    whole = trainer_of(data, *LORA, *settings)
    whole.run()
    cut = trainer_of(data, *LORA, *settings, f"out={tmp_path}/cut", "update.iterations=1")
    cut.run()
    resumed = trainer_of(data, *LORA, *settings, f"out={tmp_path}/cut", resume=True)
    resumed.run()
    assert same(weights(resumed), weights(whole))


def test_the_masks_of_dropout_belong_to_the_step_and_the_policy_update_has_none(
    trainer_of: Make, data: dict[str, Any]
) -> None:
    from creditflow.train.policy.network.adapter import seeded_dropout, stop_dropout

    run = trainer_of(data, *LORA, "model.lora.dropout=0.5")
    for _, layer in lora_layers(run.model):
        torch.nn.init.ones_(layer.lora_B["default"].weight)
    run.model.train()
    ids = torch.arange(5, 14)[None]

    def loss(step: int) -> float:
        with seeded_dropout(run.model, (8, 5, step)):
            return float(run.model(input_ids=ids, labels=ids).loss.detach())

    assert loss(2) == loss(2) != loss(3)
    stop_dropout(run.model)
    assert loss(2) == loss(3)


def test_the_merged_model_and_the_adapter_compute_what_was_trained(
    trainer_of: Make, data: dict[str, Any], base: Path
) -> None:
    from peft import PeftModel

    run = trainer_of(data, *LORA, "update.optimizer.lr=0.05")
    untrained = logits_of(run.model)
    run.run()
    trained = logits_of(run.model)
    assert not torch.allclose(trained, untrained, atol=1e-2)
    merged, _ = open_pretrained(str(run.folder / "model"), device="cpu")
    assert not has_adapter(merged)
    torch.testing.assert_close(logits_of(merged), trained, rtol=1e-4, atol=1e-5)
    adapter, _ = open_pretrained(str(run.folder / "adapter"), device="cpu")
    assert has_adapter(adapter)
    torch.testing.assert_close(logits_of(adapter), trained, rtol=0, atol=0)
    plain, _ = open_pretrained(str(base), device="cpu")
    by_peft = PeftModel.from_pretrained(plain, str(run.folder / "adapter"))
    torch.testing.assert_close(logits_of(by_peft), trained, rtol=1e-5, atol=1e-6)


def test_the_model_with_adapter_and_the_merged_one_sample_the_same(trainer_of: Make, data: dict[str, Any]) -> None:
    run = trainer_of(data, *LORA, "update.iterations=1", "update.optimizer.lr=0.05")
    run.run()
    merged, _ = open_pretrained(str(run.folder / "model"), device="cpu")
    rng = np.random.default_rng(0)
    requests = [GenerationRequest(i, rng.integers(5, 270, 6).astype(np.int32), rng.random(8)) for i in range(4)]
    ours, theirs = (
        TransformersBackend(model).generate(requests, Sampling(max_new_tokens=8), frozenset({1}))
        for model in (run.model, merged)
    )
    for a, b in zip(ours, theirs, strict=True):
        assert a.ids.tolist() == b.ids.tolist()
        assert a.logprobs.tolist() == pytest.approx(b.logprobs.tolist(), abs=1e-4)


def test_the_reference_is_the_base_without_a_second_copy(trainer_of: Make, data: dict[str, Any], base: Path) -> None:
    from creditflow.train.policy.old_logprobs import compute_logprobs

    run = trainer_of(data, *LORA, "update.loss.kl_weight=0.1", "update.optimizer.lr=0.05")
    run.run()
    assert not (run.folder / "reference").exists()
    records = [r for r in metrics(run) if r["kind"] == "iteration"]
    assert records[0]["kl_reference"] == pytest.approx(0.0, abs=1e-6)
    assert records[-1]["kl_reference"] > 1e-4
    assert next(run.reference.parameters()) is next(run.model.parameters())
    plain, _ = open_pretrained(str(base), device="cpu")
    groups = run.sample(0).groups
    from creditflow.train.policy.samples import make_rows

    rows = make_rows(groups, run.scheme.assign_batch(groups))
    ours, theirs = (compute_logprobs(one, rows, UpdateConfig(), temperature=1.0) for one in (run.reference, plain))
    np.testing.assert_allclose(np.concatenate(ours), np.concatenate(theirs), rtol=1e-5, atol=1e-6)


def test_disabling_an_adapter_leaves_it_as_it_was(trainer_of: Make, data: dict[str, Any], base: Path) -> None:
    run = trainer_of(data, *LORA, "update.iterations=1", "update.optimizer.lr=0.05")
    run.run()
    plain, _ = open_pretrained(str(base), device="cpu")
    trained = {name: p.requires_grad for name, p in run.model.named_parameters()}
    before = logits_of(run.model)
    with adapter_disabled(run.model):
        assert torch.equal(logits_of(run.model), logits_of(plain))
    assert torch.equal(logits_of(run.model), before)
    assert {name: p.requires_grad for name, p in run.model.named_parameters()} == trained


@pytest.mark.parametrize(
    "settings",
    [
        ("model.lora.base_dtype=bfloat16", "rollout.dtype=bfloat16", "model.gradient_checkpointing=true"),
        ("model.autocast=bfloat16", "rollout.dtype=bfloat16"),
        ("credit.scheme=ppo_gae", "critic.kind=separate"),
        ("credit.scheme=mt_ppo", "critic.kind=shared", "update.epochs=2"),
        ("model.lora.target_modules=[q_proj, v_proj]",),
        ("update.loss.kl_weight=0.1",),
    ],
    ids=",".join,
)
def test_every_setting_runs_with_an_adapter(trainer_of: Make, data: dict[str, Any], settings: tuple[str, ...]) -> None:
    run = trainer_of(data, *LORA, "update.iterations=1", *settings)
    run.run()
    [record] = [r for r in metrics(run) if r["kind"] == "iteration"]
    assert record["sampler_mismatch_max"] < (0.2 if "bfloat16" in "".join(settings) else 1e-4)
    trained = [p for p in run.model.parameters() if p.requires_grad]
    assert all(p.dtype == torch.float32 for p in trained)
    assert len(lora_layers(run.model)) == (4 if "target" in settings[0] else 14)
    open_pretrained(str(run.folder / "model"), device="cpu")
    if "separate" in "".join(settings):
        from creditflow.train.policy.critic import open_critic

        assert not has_adapter(open_critic(run.folder / "critic", torch.device("cpu")))


def test_a_base_in_bfloat16_is_sampled_from_without_a_copy(trainer_of: Make, data: dict[str, Any]) -> None:
    run = trainer_of(data, *LORA, "model.lora.base_dtype=bfloat16", "rollout.dtype=bfloat16")
    assert isinstance(run.backend, TransformersBackend)
    assert run.backend.model is run.model
    assert {p.dtype for p in run.model.parameters() if not p.requires_grad} == {torch.bfloat16}


@pytest.mark.parametrize("name", ["none", "bfloat16"])
def test_an_update_under_autocast_multiplies_by_the_adapter_in_16_bits(
    trainer_of: Make, data: dict[str, Any], name: str
) -> None:
    run = trainer_of(data, *LORA, "update.iterations=1", "model.lora.base_dtype=bfloat16", f"model.autocast={name}")
    types: set[Any] = set()

    def note(module: Any, _inputs: Any, output: Any) -> None:
        if module.training:
            types.add(output.dtype)

    for _, layer in lora_layers(run.model):
        layer.lora_B["default"].register_forward_hook(note)
    run.run()
    assert types == {torch.float32 if name == "none" else torch.bfloat16}


def test_a_push_to_an_engine_carries_the_merged_weights(trainer_of: Make, data: dict[str, Any]) -> None:
    from helpers.models.transformers_engine import TransformersEngine

    from creditflow.agents.backends.vllm.trained import VllmTrainedBackend

    run = trainer_of(data, *LORA)
    engines: list[TransformersEngine] = []

    def make(folder: str) -> TransformersEngine:
        engines.append(TransformersEngine(folder))
        return engines[0]

    backend = VllmTrainedBackend(run.model, dtype="float32", make_engine=make)
    for _ in range(2):
        with torch.no_grad():
            for parameter in run.model.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * 0.1)
        backend.sync()
        assert backend.sync_numbers["push_difference"] < 1e-4
        pushed = engines[0].model.state_dict()
        for name, tensor in merged_weights(run.model).items():
            torch.testing.assert_close(pushed[name], tensor)


def variant(adapter: Path, old: str, new: str) -> Path:
    """A copy of an adapter with another text in its configuration."""
    copied = Path(shutil.copytree(adapter, adapter.with_name("variant"), dirs_exist_ok=True))
    file = copied / "adapter_config.json"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    return copied


CONFIGURATIONS = (
    # part of an adapter's configuration, what replaces it, the error
    ('"q_proj"', '"query"', r"does not fit .*linear layer of Qwen2ForCausalLM 'query'"),
    ('"r": 4', '"r": 400000000', r"tensors have ranks \[4\], but its configuration has 400000000"),
    ('"use_dora": false', '"use_dora": true', "only plain LoRA .* has use_dora"),
    ('"layer_replication": null', '"layer_replication": [[0, 2], [0, 2]]', "has layer_replication"),
    ('"bias": "none"', '"bias": "all"', "has bias"),
    ('"init_lora_weights": true', '"init_lora_weights": "pissa"', "has init_lora_weights"),
    ('"lora_alpha": 8.0', '"lora_alpha": "much"', "not a readable LoRA adapter"),
    ('"LORA"', '"PREFIX_TUNING"', "expected a LoRA adapter"),
)


def test_an_adapter_that_is_damaged_or_of_another_model_is_rejected(
    trainer_of: Make, data: dict[str, Any], tmp_path: Path
) -> None:
    run = trainer_of(data, *LORA, "update.iterations=0")
    run.run()
    adapter, base = run.folder / "adapter", f'"{data["model"]["path"]}"'
    bases = (
        (str(pretrained_folder(tmp_path / "wide", hidden=96)), r"does not fit Qwen2ForCausalLM: .* has shape"),
        (str(pretrained_folder(tmp_path / "deeper", layers=3)), r"layers\.2\..* has shape none"),
        (str(adapter), "its base .* is an adapter too"),
        (str(adapter.with_name("variant")), "its base .* is an adapter too"),
    )
    others = [(base, f'"{other}"', message) for other, message in bases]
    for old, new, message in (*CONFIGURATIONS, (base, "null", "does not specify a base model"), *others):
        with pytest.raises(DataError, match=message):
            open_pretrained(str(variant(adapter, old, new)), device="cpu")
    lost = variant(adapter, '"r": 4', '"r": 4')
    tensors = load_file(lost / ADAPTER_WEIGHTS)
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, lost / ADAPTER_WEIGHTS)
    with pytest.raises(DataError, match="has shape none"):
        open_pretrained(str(lost), device="cpu")
    with pytest.raises(ConfigError, match="is an adapter"):
        trainer_of(data, *LORA, f"model.path={adapter}", f"out={tmp_path}/again")


def test_settings_that_cannot_be_meant_are_rejected(
    trainer_of: Make, config: dict[str, Any], data: dict[str, Any], settings_of: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigError, match=r"set model\.path"):
        settings_of(config, *LORA)
    with pytest.raises(ConfigError, match="reference policy is the base model without the adapter"):
        settings_of(data, *LORA, "sft.episodes=8", "update.loss.kl_weight=0.1")
    with pytest.raises(ConfigError, match="did you mean 'q_proj'"):
        trainer_of(data, *LORA, "model.lora.target_modules=[q_prj]")
    with pytest.raises(ConfigError, match="dropout lie in"):
        settings_of(data, *LORA, "model.lora.dropout=1.0")
