"""Estimated memory: published numbers of parameters, terms worked out on paper, and what fits where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.dry_run import describe
from creditflow.train.policy.packing.forest import KEYS_PER_TOKEN
from creditflow.train.run.estimate.memory import (
    KNOWN,
    MEASURED,
    Memory,
    ModelSizes,
    activation_bytes,
    known_sizes,
    memory_of,
    memory_text,
)
from creditflow.train.settings.schema import TrainConfig, load_settings

FOLDER = Path(__file__).parents[3] / "train" / "configs"
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
SIZES = KNOWN["Qwen/Qwen2.5-0.5B"]
TINY = ModelSizes(
    "llama", 8, 3, 2, 1, 4, 12, 100, True, 64
)  # hidden, layers, heads, key-value heads, their size, inner
LORA, NARROW, PLAIN = "model.lora.rank=16", "model.lora.base_dtype=bfloat16", "model.autocast=none"
VLLM = "generation.backend=vllm"


def recipe(name: str, *overrides: str) -> TrainConfig:
    return load_settings(FOLDER / f"{name}.yaml", overrides)


def memory(*overrides: str, sizes: ModelSizes = SIZES, name: str = "gigpo_alfworld") -> Memory:
    """Of a recipe with 16 groups of 8, prompts of up to 2560 - 512 tokens, at most 50 turns, micro-batches of 16384 tokens."""
    return memory_of(sizes, recipe(name, *overrides))


@pytest.mark.parametrize("name", KNOWN)
def test_known_sizes_have_the_published_number_of_parameters(name: str) -> None:
    assert KNOWN[name].parameters == PUBLISHED[name]
    assert known_sizes(f"{name}-Instruct") is KNOWN[name]
    assert known_sizes("Some/Model") is None


def test_sizes_are_read_from_a_configuration_of_a_known_family() -> None:
    config = SimpleNamespace(
        model_type="qwen2", hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
        intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True, max_position_embeddings=32768,
    )  # fmt: skip
    config.get_text_config = lambda: config
    assert ModelSizes.of(config) == SIZES  # without head_dim: 896 / 14
    config.head_dim = 128
    found = ModelSizes.of(config)
    assert found is not None and found.head_dim == 128
    config.model_type = "gpt2"
    assert ModelSizes.of(config) is None


def test_full_training_holds_four_numbers_per_weight_and_lora_per_weight_of_the_adapter() -> None:
    sizes = KNOWN["Qwen/Qwen2.5-7B"]
    full = memory(sizes=sizes)  # a reference in float32, a sampler in bfloat16
    assert full.held == (16 + 4 + 2) * sizes.parameters
    assert memory("rollout.dtype=same", sizes=sizes).held == (16 + 4) * sizes.parameters
    # per block: 16 · (inputs + outputs) of q, k, v, o, gate, up and down
    adapter = 28 * 16 * (2 * 7168 + 2 * (3584 + 512) + 3 * (3584 + 18944))
    assert memory(LORA, NARROW, sizes=sizes).held == 2 * sizes.parameters + 16 * adapter


def test_a_separate_critic_with_an_adapter_trains_the_adapter_alone() -> None:
    critic = ("credit.scheme=ppo_gae", "credit.parameters={}", "critic.kind=separate")
    adapter = 16 * SIZES.layers * sum(inputs + outputs for inputs, outputs in SIZES.linear.values())
    assert memory(*critic).held - memory().held == 16 * SIZES.decoder
    assert memory(*critic, LORA).held - memory(LORA).held == 4 * SIZES.decoder + 16 * adapter
    assert memory(*critic, LORA, NARROW).held - memory(LORA, NARROW).held == 2 * SIZES.decoder + 16 * adapter


def test_what_is_stored_per_token_counted_on_paper() -> None:
    def bytes_of(
        sizes: ModelSizes, number: int, converted: int = 0, packed: bool = False, checkpointing: bool = False
    ) -> int:
        return activation_bytes(
            sizes, 5, base=number, product=number, converted=converted, checkpointing=checkpointing, packed=packed
        )

    # two norms of 3 arrays of 8 (4 of them if the residual is narrow), 5 of 8 in attention, 4 of 12 after it
    single, half = 2 * 8 * 12 + 5 * 8 * 4 + 4 * 12 * 4, 2 * 8 * (2 + 4 + 2 + 2) + 5 * 8 * 2 + 4 * 12 * 2
    ends = 2 * 8 * (2 + 4)
    assert bytes_of(TINY, 4) == 5 * (4 * single + 2 * 8 * 8)
    assert bytes_of(TINY, 2) == 5 * (4 * half + ends)
    assert bytes_of(TINY, 2, checkpointing=True) == 5 * (3 * 8 * 2 + 2 * half + ends)
    # queries and keys are normalised too: 12 numbers, twice in float32 and once more
    assert bytes_of(replace(TINY, family="qwen3"), 2) == 5 * (4 * (half + 12 * (4 + 4 + 2)) + ends)
    # an adapter's copies of the inputs of q, k, v, o, gate and up, of 8, and of down, of 12
    assert bytes_of(TINY, 2, converted=4) == 5 * (4 * (half + 4 * (6 * 8 + 12)) + ends)
    # packed rows with common prefixes gather keys and values of 4 numbers, in 16 bits
    assert bytes_of(TINY, 2, packed=True) == 5 * (4 * (half + KEYS_PER_TOKEN * 2 * 4 * 2) + ends)


@pytest.mark.parametrize(
    ("overrides", "base", "product", "converted", "casts"),
    [
        ((PLAIN,), 4, 4, 0, False),
        ((), 4, 2, 0, True),  # autocast keeps weights in bfloat16 too
        ((LORA, PLAIN), 4, 4, 0, False),
        ((LORA,), 4, 2, 2, True),
        ((LORA, NARROW, PLAIN), 2, 2, 4, False),  # the adapter converts its inputs to float32
        ((LORA, NARROW), 2, 2, 2, False),
    ],
)
def test_an_update_holds_activations_logits_and_the_weights_of_autocast(
    overrides: tuple[str, ...], base: int, product: int, converted: int, casts: bool
) -> None:
    def update(tokens: int, packed: bool, checkpointing: bool) -> int:
        chunk = min(tokens, 1024)
        stored = activation_bytes(
            SIZES, tokens, base=base, product=product, converted=converted, checkpointing=checkpointing, packed=packed
        )
        return stored + chunk * SIZES.vocabulary * (product + 8 * 4) + casts * 2 * SIZES.parameters

    assert memory(*overrides, "update.packing=padded").update == update(16384, False, True)
    assert memory(*overrides, "update.packing=packed").update == update(16384, True, True)
    stored = (*overrides, "update.packing=padded", "model.gradient_checkpointing=false")
    assert memory(*stored).update == update(16384, False, False)
    assert memory(*stored, "update.batch_tokens=100").update == update(2560, False, False)  # one row at least


def test_a_rollout_holds_the_cache_of_all_rows_and_the_tokens_that_are_new() -> None:
    # slots for the context and a quarter more, keys and values, layers, heads, size, bytes
    cache = 3200 * 2 * 24 * 2 * 64 * 2
    token = 3 * 4864 * 2 + 2 * (14 + 4) * 64 * 2 + 4 * 896 * 4 + 2560  # a block's pass, and a byte of mask per token
    sampled = SIZES.vocabulary * (2 + 2 * 4 + 3 * 8)
    appended = ("prompting.history=append", "update.row_layout=trajectory")
    for overrides, rows, new in (
        ((), 128, 2048),
        (("rollout.concurrent_groups=5",), 40, 2048),
        (("rollout.branching.max_trajectories=9", "rollout.branching.threshold=0.5"), 144, 2048),
        (appended, 128, 41),  # ⌈2048 / 50⌉ in each turn
        ((*appended, "rollout.max_turns=7"), 128, 293),
    ):
        assert memory(*overrides).rollout == rows * (cache + new * token + sampled), overrides


def test_truncated_sampling_sorts_the_vocabulary() -> None:
    whole, truncated = (memory(f"rollout.top_p={p}", name="search_r1_grpo_wikisearch") for p in (1.0, 0.95))
    assert truncated.update > whole.update
    assert truncated.rollout > whole.rollout


def test_the_peak_is_what_stays_and_the_larger_of_update_and_rollout() -> None:
    estimated = memory()
    assert estimated.peak == estimated.held + max(estimated.update, estimated.rollout)


def test_vllm_takes_its_fraction_of_the_gpu_and_asleep_nothing_during_updates() -> None:
    own, awake, asleep = memory("rollout.dtype=same"), memory(VLLM), memory(VLLM, "generation.vllm.sleep=true")
    assert awake == Memory(own.held + int(0.4 * 80e9), own.update, 0, own.held + int(0.4 * 80e9) + own.update)
    assert asleep == Memory(own.held, own.update, int(0.4 * 80e9), own.held + int(0.4 * 80e9))
    assert memory(VLLM, "generation.vllm.kv_gib=3").held == own.held + 2 * SIZES.parameters + 3 * 2**30


def test_what_fits_one_gpu_of_80_gb() -> None:
    small, large = KNOWN["Qwen/Qwen2.5-1.5B"], KNOWN["Qwen/Qwen2.5-7B"]
    assert memory(VLLM, sizes=small).peak == pytest.approx(78.6e9, rel=1e-3)  # the published sizes, added by hand
    assert memory(VLLM, "generation.vllm.sleep=true", sizes=small).peak < 0.9 * 80e9
    assert memory(name="gigpo_alfworld_7b_lora", sizes=large).peak < 0.9 * 80e9
    assert memory("model.lora.rank=0", name="gigpo_alfworld_7b_lora", sizes=large).peak > 141e9


def test_a_target_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'q_proj'"):
        memory("model.lora.target_modules=[q_prj]", name="gigpo_alfworld_7b_lora")


def test_without_a_limit_the_longest_prompt_of_the_experts_episodes_counts_and_not_the_models_longest() -> None:
    def of(limit: int, longest: int) -> Memory:
        settings = recipe("gigpo_sokoban", f"prompting.max_context={limit}", "update.batch_tokens=1024")
        return memory_of(SIZES, settings, longest=longest)

    assert of(0, 0) == of(0, 10**9) == of(SIZES.positions, 0)
    assert of(0, 1024) == of(1024, 0)


def test_the_line_names_the_smallest_gpu_with_a_tenth_to_spare_and_gpus_share_what_is_held() -> None:
    found = memory()
    assert 0.9 * 24e9 < found.peak < 0.9 * 40e9
    alone, shared = (memory_text(SIZES, recipe("gigpo_alfworld"), gpus=gpus) for gpus in (1, 8))
    assert alone.startswith(f"memory: {found.peak / 1e9:.2g} GB at the peak on a GPU (fits: one of 40 GB")
    assert shared.startswith(f"memory: {(found.peak - 7 / 8 * found.held) / 1e9:.2g} GB at the peak on each of 8 GPUs")


def test_a_measured_run_took_less_than_estimated_by_less_than_a_factor_of_four() -> None:
    # the process's largest resident size in one iteration that began with the trained model
    measured, sizes = 3.26, KNOWN["models/smollm2"]
    estimated = memory_of(sizes, recipe("smollm2_sokoban", "device=cpu")).peak / 1e9
    assert measured < estimated < 4 * measured
    assert f"took {measured:.2g} GB on a CPU where this says {estimated:.2g}" in MEASURED


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_a_dry_run_prints_a_line_of_memory_and_one_of_hours(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    describe(recipe("gigpo_sokoban", "prompting.max_context=0", f"device={device}"))
    lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("# memory: ") for line in lines) == 1
    assert any(" GPU" in line for line in lines if line.startswith("# memory")) == (device == "auto")
    [hours] = [line for line in lines if "hours" in line]
    assert ("one iteration on an H200 took 1.6 times the middle" in hours) == (device == "auto")
