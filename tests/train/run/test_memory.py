"""Estimated memory: published numbers of parameters, terms worked out on paper, and what fits where."""

from __future__ import annotations

from pathlib import Path

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.dry_run import describe
from creditflow.train.run.estimate import (
    KNOWN,
    MEMORY_MEASURED,
    ModelSizes,
    known_sizes,
    memory_gb,
    memory_text,
    trained_bytes,
)
from creditflow.train.settings.schema import TrainConfig, load_settings

FOLDER = Path(__file__).parents[3] / "train" / "configs"
SIZES = KNOWN["Qwen/Qwen2.5-0.5B"]
LORA, NARROW = "model.lora.rank=16", "model.lora.base_dtype=bfloat16"
VLLM = "generation.backend=vllm"


def recipe(name: str, *overrides: str) -> TrainConfig:
    return load_settings(FOLDER / f"{name}.yaml", overrides)


def held(*overrides: str, sizes: ModelSizes = SIZES, name: str = "gigpo_alfworld") -> int:
    return trained_bytes(sizes, recipe(name, *overrides))


def memory(*overrides: str, sizes: ModelSizes = SIZES, name: str = "gigpo_alfworld") -> float:
    """Of a recipe with 16 groups of 8, prompts of up to 2560 - 512 tokens, at most 50 turns, micro-batches of 16384 tokens."""
    return memory_gb(sizes, recipe(name, *overrides))


def test_models_are_known_by_their_names() -> None:
    for name in KNOWN:
        assert known_sizes(f"{name}-Instruct") is KNOWN[name]
    assert known_sizes("Some/Model") is None


def test_full_training_holds_four_numbers_per_weight_and_lora_per_weight_of_the_adapter() -> None:
    sizes = KNOWN["Qwen/Qwen2.5-7B"]
    assert held(sizes=sizes) == (16 + 4) * sizes.parameters  # and a reference in float32
    # per block: 16 · (inputs + outputs) of q, k, v, o, gate, up and down
    adapter = 28 * 16 * (2 * 7168 + 2 * (3584 + 512) + 3 * (3584 + 18944))
    assert held(LORA, NARROW, sizes=sizes) == 2 * sizes.parameters + 16 * adapter


def test_a_separate_critic_with_an_adapter_trains_the_adapter_alone() -> None:
    critic = ("credit.scheme=ppo_gae", "credit.parameters={}", "critic.kind=separate")
    adapter = 24 * 16 * (2 * 2 * 896 + 2 * (896 + 128) + 3 * (896 + 4864))
    assert held(*critic) - held() == 16 * SIZES.decoder
    assert held(*critic, LORA) - held(LORA) == 4 * SIZES.decoder + 16 * adapter
    assert held(*critic, LORA, NARROW) - held(LORA, NARROW) == 2 * SIZES.decoder + 16 * adapter


def test_a_rollout_holds_the_cache_of_all_episodes() -> None:
    # slots for the context and a quarter more, keys and values, layers, heads, size, bytes
    cache = 3200 * 2 * 24 * 2 * 64 * 2
    few, many = memory("rollout.tasks=160"), memory("rollout.tasks=320")
    assert many - few > 160 * 8 * cache / 1e9
    played = memory("rollout.tasks=320", "rollout.concurrent_groups=160")
    assert played == few


def test_truncated_sampling_sorts_the_vocabulary() -> None:
    whole, truncated = (memory(f"rollout.top_p={p}", name="search_r1_grpo_wikisearch") for p in (1.0, 0.95))
    assert truncated > whole


def test_vllm_takes_its_fraction_of_the_gpu_and_asleep_nothing_during_updates() -> None:
    awake, asleep = memory(VLLM), memory(VLLM, "generation.vllm.sleep=true")
    assert awake - asleep == pytest.approx(min(32.0, awake - held() / 1e9 - 32.0))
    small = memory(VLLM, "generation.vllm.kv_gib=3")
    assert awake - small == pytest.approx(32.0 - (2 * SIZES.parameters + 3 * 2**30) / 1e9)


def test_what_fits_one_gpu_of_80_gb() -> None:
    small, large = KNOWN["Qwen/Qwen2.5-1.5B"], KNOWN["Qwen/Qwen2.5-7B"]
    assert memory(VLLM, sizes=small) == pytest.approx(78.6, abs=1.5)  # the published sizes, added by hand
    assert memory(VLLM, "generation.vllm.sleep=true", sizes=small) < 0.9 * 80
    assert memory(name="gigpo_alfworld_7b_lora", sizes=large) < 0.9 * 80
    assert memory("model.lora.rank=0", name="gigpo_alfworld_7b_lora", sizes=large) > 141


def test_a_target_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'q_proj'"):
        memory("model.lora.target_modules=[q_prj]", name="gigpo_alfworld_7b_lora")


def test_without_a_limit_the_longest_measured_prompt_counts_and_not_the_models_longest() -> None:
    def of(limit: int, longest: int) -> float:
        settings = recipe("gigpo_sokoban", f"prompting.max_context={limit}", "update.batch_tokens=1024")
        return memory_gb(SIZES, settings, longest=longest)

    assert of(0, 0) == of(0, 10**9) == of(SIZES.positions, 0)
    assert of(0, 1024) == of(1024, 0)


def test_gpus_share_what_is_held() -> None:
    alone, shared = (memory_gb(SIZES, recipe("gigpo_alfworld"), gpus=gpus) for gpus in (1, 8))
    assert alone - shared == pytest.approx(7 / 8 * held() / 1e9)
    assert f"memory: {alone:.2g} GB at the peak on a GPU;" in memory_text(SIZES, recipe("gigpo_alfworld"))


def test_a_measured_run_took_less_than_estimated_by_less_than_a_factor_of_four() -> None:
    # the process's largest resident size in one iteration that began with the trained model
    measured, sizes = 3.26, KNOWN["models/smollm2"]
    estimated = memory_gb(sizes, recipe("smollm2_sokoban", "device=cpu"))
    assert measured < estimated < 4 * measured
    assert f"took {measured:.2g} GB on a CPU where this says {estimated:.2g}" in MEMORY_MEASURED


def test_what_a_vision_tower_stores_is_said_to_be_left_out() -> None:
    told = [memory_text(sizes, recipe("gigpo_sokoban_vl")) for sizes in (SIZES, SIZES._replace(vision=True))]
    assert ["without the activations of the vision tower" in line for line in told] == [False, True]


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_a_dry_run_prints_a_line_of_memory_and_one_of_hours(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    describe(recipe("gigpo_sokoban", "prompting.max_context=0", f"device={device}"))
    lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("# memory: ") for line in lines) == 1
    assert any(" GPU" in line for line in lines if line.startswith("# memory")) == (device == "auto")
    [hours] = [line for line in lines if "hours" in line]
    assert ("one iteration on an H200 took 1.6 times the middle" in hours) == (device == "auto")
