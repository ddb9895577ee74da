"""The memory table: published numbers of parameters, what fits where, and how layouts and settings change it."""

from __future__ import annotations

from pathlib import Path

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.dry_run import describe
from creditflow.train.run.estimate.memory import Memory, memory_of, memory_table
from creditflow.train.run.estimate.sizes import KNOWN, known_sizes
from creditflow.train.settings.reading import load_mapping
from creditflow.train.settings.schema import TrainConfig, load_settings

FOLDER = Path(__file__).parents[3] / "train" / "configs"
RECIPES = sorted(path for path in FOLDER.glob("*.yaml") if load_mapping(path).get("kind", "policy") == "policy")
PUBLISHED = {  # "num_parameters" of the models' safetensors, on huggingface.co/Qwen
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen2.5-VL-3B": 3_754_622_976,
    "Qwen/Qwen2.5-VL-7B": 8_292_166_656,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "models/smollm2": 134_515_008,
}
LORA = ("model.lora.rank=16", "model.lora.base_dtype=bfloat16")


def recipe(name: str, *overrides: str) -> TrainConfig:
    return load_settings(FOLDER / f"{name}.yaml", overrides)


def memory(name: str, *overrides: str, gpu_gb: int = 0) -> Memory:
    settings = recipe(name, *overrides)
    sizes = known_sizes(settings.model.path)
    assert sizes is not None
    return memory_of(sizes, settings, gpu_gb)


@pytest.mark.parametrize("name", KNOWN)
def test_known_sizes_have_the_published_number_of_parameters(name: str) -> None:
    assert KNOWN[name].parameters == PUBLISHED[name]
    assert known_sizes(f"{name}-Instruct") is KNOWN[name]


@pytest.mark.parametrize("path", [path for path in RECIPES if path.stem != "quickstart"], ids=lambda path: path.stem)
def test_every_recipe_has_a_table(path: Path) -> None:
    settings = load_settings(path)
    sizes = known_sizes(settings.model.path)
    assert sizes is not None
    table = memory_table(sizes, settings)
    assert "fits a GPU of" in table


def test_the_7b_recipe_with_lora_fits_one_gpu_of_80_gb_and_its_full_training_does_not() -> None:
    assert memory("gigpo_alfworld_7b_lora").peak < 0.9 * 80e9
    assert memory("gigpo_alfworld_7b_lora", "model.lora.rank=0").peak > 141e9


def test_full_training_holds_four_numbers_per_weight_and_lora_per_weight_of_the_adapter() -> None:
    sizes = KNOWN["Qwen/Qwen2.5-7B"]
    full = memory("gigpo_alfworld", "model.path=Qwen/Qwen2.5-7B")
    assert full.weights + full.gradients + full.moments == 16 * sizes.parameters
    assert full.reference == 4 * sizes.parameters
    narrow = memory("gigpo_alfworld", "model.path=Qwen/Qwen2.5-7B", "update.loss.reference_dtype=bfloat16")
    assert narrow.reference == 2 * sizes.parameters
    assert full.sampler == 2 * sizes.parameters
    adapter = memory("gigpo_alfworld", "model.path=Qwen/Qwen2.5-7B", *LORA)
    # per block: 16 · (inputs + outputs) of q, k, v, o, gate, up and down
    count = 28 * 16 * (2 * 7168 + 2 * (3584 + 512) + 3 * (3584 + 18944))
    assert adapter.weights == 2 * sizes.parameters + 4 * count
    assert adapter.gradients + adapter.moments == 12 * count
    assert adapter.reference == adapter.sampler == 0


def test_checkpointing_needs_less_and_a_smaller_micro_batch_too() -> None:
    plain = memory("gigpo_alfworld", "model.gradient_checkpointing=false")
    assert plain.update - plain.stored == plain.casts + plain.logits
    assert plain.checkpointed < plain.stored / 4
    assert 2 * memory("gigpo_alfworld", "update.batch_tokens=8192").checkpointed == plain.checkpointed


def test_truncated_sampling_sorts_the_vocabulary() -> None:
    whole, truncated = (memory("search_r1_grpo_wikisearch", f"rollout.top_p={p}") for p in (1.0, 0.95))
    assert truncated.logits > whole.logits
    assert truncated.prefill > whole.prefill


def test_vllm_has_weights_of_its_own_and_takes_its_cache_from_a_fraction_of_the_gpu() -> None:
    found = memory("gigpo_alfworld_7b_lora", "generation.backend=vllm", gpu_gb=80)
    assert found.sampler >= 2 * KNOWN["Qwen/Qwen2.5-7B"].parameters
    assert found.sampler + found.cache == int(0.4 * 80e9)


def test_one_gpu_of_80_gb_does_not_hold_the_1_5b_recipe_with_vllm_awake_and_does_with_vllm_asleep() -> None:
    vllm = ("gigpo_alfworld", "generation.backend=vllm")
    assert memory(*vllm, gpu_gb=80).peak == pytest.approx(78.6e9, rel=1e-3)  # the published sizes, added by hand
    assert memory(*vllm, "generation.vllm.sleep=true", gpu_gb=80).peak < 0.9 * 80e9


def test_a_target_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'q_proj'"):
        memory("gigpo_alfworld_7b_lora", "model.lora.target_modules=[q_prj]")
    assert known_sizes("Some/Model") is None


def test_without_a_limit_the_longest_prompt_of_the_experts_episodes_counts_and_not_the_models_longest() -> None:
    settings = recipe("gigpo_sokoban", "prompting.max_context=0", "update.batch_tokens=1024")
    sizes = known_sizes(settings.model.path)
    assert sizes is not None
    whole, shown = (memory_of(sizes, settings, longest=longest) for longest in (0, 1024))
    assert whole == memory_of(
        sizes, recipe("gigpo_sokoban", f"prompting.max_context={sizes.positions}", "update.batch_tokens=1024")
    )
    assert shown == memory_of(sizes, recipe("gigpo_sokoban", "prompting.max_context=1024", "update.batch_tokens=1024"))
    assert memory_of(sizes, settings, longest=10**9) == whole


@pytest.mark.parametrize(("device", "table"), [("auto", True), ("cpu", False)])
def test_a_dry_run_counts_prompts_as_long_as_shown_and_prints_no_table_of_gpus_for_a_cpu(
    device: str, table: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = recipe("gigpo_sokoban", "prompting.max_context=0", f"device={device}")
    describe(settings)
    printed = capsys.readouterr().err
    assert ("GB on the GPU" in printed, "GPU hours, estimated" in printed) == (table, table)
    if not table:
        assert "memory at the peak" in printed
