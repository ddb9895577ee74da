"""The terms of the memory table: which settings each depends on, and what is added up."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from creditflow.train.policy.packing.forest import KEYS_PER_TOKEN
from creditflow.train.run.estimate.memory import (
    Memory,
    NumberBytes,
    _smallest_gpu,
    block_bytes,
    logits_bytes,
    mask_bytes,
    memory_of,
    memory_table,
    prefill_bytes,
    sampling_bytes,
    update_bytes,
)
from creditflow.train.run.estimate.sizes import KNOWN, ModelSizes
from creditflow.train.settings.schema import TrainConfig, load_settings

RECIPE = Path(__file__).parents[3] / "train" / "configs" / "gigpo_alfworld.yaml"
SIZES = KNOWN["Qwen/Qwen2.5-0.5B"]
# 16 groups of 8, prompts of up to 2560 - 512 tokens, at most 50 turns, micro-batches of 16384 tokens; the sampler in bfloat16
LORA, NARROW = "model.lora.rank=16", "model.lora.base_dtype=bfloat16"
PLAIN = "model.autocast=none"


def settings_of(*overrides: str) -> TrainConfig:
    return load_settings(RECIPE, overrides)


def memory(*overrides: str, gpu_gb: int = 0) -> Memory:
    return memory_of(SIZES, settings_of(*overrides), gpu_gb)


@pytest.mark.parametrize(
    ("overrides", "types", "casts"),
    [
        ((PLAIN,), NumberBytes(4, 4, 4, 0), False),
        ((), NumberBytes(4, 4, 2, 0), True),  # autocast keeps weights in bfloat16 too
        ((LORA, PLAIN), NumberBytes(4, 4, 4, 0), False),
        ((LORA,), NumberBytes(4, 4, 2, 2), True),
        ((LORA, NARROW, PLAIN), NumberBytes(2, 2, 2, 4), False),  # the adapter converts its inputs to float32
        ((LORA, NARROW), NumberBytes(2, 2, 2, 2), False),
    ],
)
def test_types_follow_autocast_and_the_type_of_the_base(
    overrides: tuple[str, ...], types: NumberBytes, casts: bool
) -> None:
    for packing, gathered in (("padded", 0), ("packed", KEYS_PER_TOKEN)):
        found = memory(*overrides, f"update.packing={packing}")
        assert found.stored == update_bytes(SIZES, types, 16384, checkpointing=False, gathered=gathered)
        assert found.checkpointed == update_bytes(SIZES, types, 16384, checkpointing=True, gathered=gathered)
    assert found.logits == logits_bytes(SIZES, types, 1024)
    assert found.casts == (2 * SIZES.parameters if casts else 0)


def test_micro_batches_hold_at_least_one_row_and_chunks_of_logits_at_most_a_micro_batch() -> None:
    types, padded = NumberBytes(4, 4, 2, 0), "update.packing=padded"
    assert memory("update.batch_tokens=100", padded).stored == update_bytes(SIZES, types, 2560, checkpointing=False)
    assert memory("update.logits_chunk=3000", "update.batch_tokens=100").logits == logits_bytes(SIZES, types, 2560)
    assert memory("prompting.max_context=0", "update.batch_tokens=100", padded).stored == update_bytes(
        SIZES, types, SIZES.positions, checkpointing=False
    )


def test_the_sampler_has_weights_of_its_own_unless_the_policys_can_be_read() -> None:
    assert memory("rollout.dtype=same").sampler == 0
    assert memory().sampler == 2 * SIZES.parameters
    assert memory("generation.backend=vllm", "rollout.dtype=same").sampler == 4 * SIZES.parameters


def test_a_separate_critic_with_an_adapter_trains_the_adapter_alone() -> None:
    critic = ("credit.scheme=ppo_gae", "credit.parameters={}", "critic.kind=separate")
    per_block = 16 * sum(inputs + outputs for inputs, outputs in SIZES.linear.values())
    assert memory(*critic).critic == 16 * SIZES.decoder
    assert memory(*critic, LORA).critic == 4 * SIZES.decoder + 16 * SIZES.layers * per_block
    assert memory(*critic, LORA, NARROW).critic == 2 * SIZES.decoder + 16 * SIZES.layers * per_block
    assert memory(LORA).critic == 0


def test_a_rollout_holds_the_rows_of_a_gpu_and_the_tokens_that_are_new() -> None:
    # slots for the context and a quarter more, keys and values, layers, heads, size, bytes
    per_row = 3200 * 2 * 24 * 2 * 64 * 2
    types, appended = NumberBytes(2, 2, 2, 0), ("prompting.history=append", "update.row_layout=trajectory")
    for overrides, rows, new in (
        ((), 128, 2048),
        (("rollout.concurrent_groups=5",), 40, 2048),
        (("rollout.branching.max_trajectories=9", "rollout.branching.threshold=0.5"), 144, 2048),
        (appended, 128, 41),  # ⌈2048 / 50⌉ in each turn
        ((*appended, "rollout.max_turns=7"), 128, 293),
    ):
        found = memory(*overrides)
        assert found.cache == rows * per_row, overrides
        expected = prefill_bytes(SIZES, types, rows * new) + sampling_bytes(SIZES, types, rows)
        expected += mask_bytes(rows, new, 2560)
        assert found.prefill == expected, overrides


def test_what_is_stored_per_token_counted_on_paper() -> None:
    tiny = ModelSizes(
        "llama", 8, 3, 2, 1, 4, 12, 100, True, 64
    )  # hidden, layers, heads, key-value heads, their size, inner
    single, half = NumberBytes(4, 4, 4, 0), NumberBytes(2, 2, 2, 0)
    # two norms of 3 arrays of 8 (4 of them if the residual is narrow), 5 of 8 in attention, 4 of 12 after it
    assert block_bytes(tiny, single) == 2 * 8 * 12 + 5 * 8 * 4 + 4 * 12 * 4 == 544
    assert block_bytes(tiny, half) == 2 * 8 * (2 + 4 + 2 + 2) + 5 * 8 * 2 + 4 * 12 * 2 == 336
    # queries and keys are normalised too: 12 numbers, twice in float32 and once more
    assert block_bytes(replace(tiny, family="qwen3"), half) == 336 + 12 * (4 + 4 + 2)
    # an adapter's copies of the inputs of q, k, v, o, gate and up, of 8, and of down, of 12
    assert block_bytes(tiny, NumberBytes(2, 2, 2, 4)) == 336 + 4 * (6 * 8 + 12)
    ends = 2 * 8 * (2 + 4)
    assert update_bytes(tiny, half, 5, checkpointing=False) == 5 * (4 * 336 + ends)
    assert update_bytes(tiny, half, 5, checkpointing=True) == 5 * (3 * 8 * 2 + 2 * 336 + ends)
    # packed rows with common prefixes gather keys and values of 4 numbers, here three times, in 16 bits
    assert update_bytes(tiny, half, 5, checkpointing=False, gathered=3) == 5 * (4 * (336 + 3 * 2 * 4 * 2) + ends)
    # truncation sorts: two arrays of float32, one of int64, three masks
    assert logits_bytes(tiny, half, 7) == 7 * 100 * (2 + 8 * 4)
    assert logits_bytes(tiny, half, 7, truncated=True) == 7 * 100 * (2 + 8 * 4 + 19)
    assert sampling_bytes(tiny, half, 7) == 7 * 100 * (2 + 2 * 4 + 3 * 8)
    assert sampling_bytes(tiny, half, 7, truncated=True) == 7 * 100 * (2 + 2 * 4 + 3 * 8 + 2 * 19)
    # queries, keys and values, twice: 16 numbers
    assert prefill_bytes(tiny, half, 7) == 7 * (3 * 12 * 2 + 2 * 16 * 2 + 4 * 8 * 4)
    assert prefill_bytes(tiny, NumberBytes(2, 2, 2, 4), 7) == prefill_bytes(tiny, half, 7) + 7 * 12 * 4


def test_the_peak_is_what_stays_and_the_larger_of_update_and_rollout() -> None:
    found = Memory(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, checkpointing=False)
    assert found.permanent == 1 + 2 + 4 + 8 + 16 + 32
    assert found.update == 64 + 256 + 512
    assert replace(found, checkpointing=True).update == 64 + 128 + 512
    assert found.rollout == 1024 + 2048
    assert found.peak == found.permanent + found.rollout
    assert replace(found, cache=0, prefill=1).peak == found.permanent + found.update
    assert replace(found, overlapping=True).peak == found.permanent + found.update + found.rollout


def test_rollouts_ahead_of_the_update_are_held_beside_it_with_weights_of_their_own() -> None:
    waiting, ahead = memory(), memory("rollout.max_staleness=2")
    assert ahead.sampler == 3 * waiting.sampler  # the copy for evaluation, and two that lag behind
    assert memory("rollout.max_staleness=2", "rollout.dtype=same").sampler == 2 * 4 * SIZES.parameters
    assert ahead.peak == ahead.permanent + ahead.update + ahead.rollout
    assert waiting.peak == waiting.permanent + max(waiting.update, waiting.rollout)
    lines = memory_table(SIZES, settings_of("rollout.max_staleness=2")).splitlines()
    [peak] = [line for line in lines if line.startswith("peak")]
    assert peak.endswith("always + update + rollout")


def test_the_mask_of_a_prompt_is_a_byte_for_each_pair_of_tokens() -> None:
    # WebShop's windows of 5120 tokens in 128 rows: 3.4 GB
    assert mask_bytes(128, 5120, 5120) == 128 * 5120**2


def test_vllm_takes_its_fraction_of_the_gpu_and_the_trainer_comes_on_top() -> None:
    plain, on_80 = memory(), memory("generation.backend=vllm", gpu_gb=80)
    assert on_80.sampler + on_80.cache == int(0.4 * 80e9)
    trained = plain.permanent - plain.sampler
    assert on_80.peak == trained + int(0.4 * 80e9) + plain.update
    larger = memory("generation.backend=vllm", "generation.vllm.memory=0.5", gpu_gb=80)
    assert larger.peak - on_80.peak == int(0.1 * 80e9)
    sized = memory("generation.backend=vllm", "generation.vllm.kv_gib=3", gpu_gb=80)
    assert sized.cache == 3 * 2**30


def test_vllm_asleep_has_no_memory_during_updates() -> None:
    asleep = memory("generation.backend=vllm", "generation.vllm.sleep=true", gpu_gb=80)
    trained = asleep.weights + asleep.gradients + asleep.moments + asleep.reference
    assert asleep.permanent == trained
    assert asleep.rollout == int(0.4 * 80e9)
    assert asleep.peak == trained + max(asleep.update, int(0.4 * 80e9))


def test_the_table_of_a_run_with_vllm_has_a_column_for_each_size_of_gpu() -> None:
    lines = [
        re.split(r"  +", line.strip())
        for line in memory_table(SIZES, settings_of("generation.backend=vllm")).splitlines()
    ]
    rows = {line[0]: line[1:] for line in lines}
    assert lines[0] == ["GB on the GPU", "of 24", "of 48", "of 80", "of 141"]
    found = [memory("generation.backend=vllm", gpu_gb=gb) for gb in (24, 48, 80, 141)]
    assert rows["vLLM's cache, 40% with the weights"] == [*(f"{one.cache / 1e9:.2f}" for one in found), "always"]
    assert rows["peak"][:4] == [f"{one.peak / 1e9:.2f}" for one in found]
    fits = ["yes" if one.peak <= 0.9e9 * gb else "no" for one, gb in zip(found, (24, 48, 80, 141), strict=True)]
    assert rows["fits"] == fits
    assert {"yes", "no"} == set(fits)


def test_the_table_shows_each_term_its_phase_and_the_smallest_gpu() -> None:
    settings = settings_of()
    memory = memory_of(SIZES, settings)
    lines = [re.split(r"  +", line.strip()) for line in memory_table(SIZES, settings).splitlines()]
    rows = {line[0]: line[1:] for line in lines}
    assert lines[0] == ["GB on the GPU"]
    for title, name, note in (
        ("weights", "weights", "always"),
        ("optimiser states", "moments", "always"),
        ("logits", "logits", "update"),
        ("activations, checkpointed", "checkpointed", "update"),
        ("activations, all stored", "stored", "with gradient_checkpointing: false"),
        ("KV cache", "cache", "rollout"),
        ("peak", "peak", "always + the larger of update and rollout"),
    ):
        assert rows[title] == [f"{getattr(memory, name) / 1e9:.2f}", note]
    assert "critic" not in rows  # there is none
    smallest = min(gpu for gpu in (16, 24, 40, 48, 80, 141) if memory.peak <= 0.9e9 * gpu)
    assert rows["fits a GPU of"] == [f"{smallest} GB"]


def test_a_gpu_fits_with_a_tenth_of_it_to_spare() -> None:
    nothing = Memory(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, checkpointing=True)
    fits = [_smallest_gpu(replace(nothing, weights=int(gb * 1e9))) for gb in (0.9 * 16, 0.95 * 16, 0.9 * 141, 130)]
    assert fits == ["16 GB", "24 GB", "141 GB", "none"]


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
