"""GPU hours of a run: tokens and arithmetic worked out on paper, what a setting changes, and what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from creditflow.train.rollout.tasks import training_tasks
from creditflow.train.run.estimate import (
    GPUS,
    HOURS_MEASURED,
    KNOWN,
    Prompts,
    forward_flops,
    hours,
    measured_prompts,
    passes,
    range_text,
)
from creditflow.train.settings.schema import TrainConfig, load_settings

FOLDER = Path(__file__).parents[3] / "train" / "configs"
SMALL = KNOWN["Qwen/Qwen2.5-1.5B"]
PROMPTS = Prompts(limit=50, first=300, later=400)
ALONE = ("evaluation.panel=", "evaluation.final_panel=")
SLOW, FAST = 1e9, 1e30  # FLOP/s: arithmetic alone takes time, or none


def recipe(name: str, *overrides: str) -> TrainConfig:
    return load_settings(FOLDER / f"{name}.yaml", overrides)


def seconds(
    *overrides: str, name: str = "gigpo_alfworld", peak: float = GPUS["H100"], prompts: Prompts = PROMPTS
) -> float:
    return 3600 * hours(SMALL, recipe(name, *ALONE, *overrides), prompts, peak)


def test_an_update_takes_as_long_as_its_arithmetic_with_every_turn_and_half_of_the_tokens() -> None:
    rows = 128 * (300 + 49 * 400 + 50 * 256)
    work = forward_flops(SMALL, rows, rows / 128 / 50) * 6  # recomputed, forward and backward; old; reference
    prompts = forward_flops(SMALL, 128 * (300 + 49 * 400), rows / 128 / 50)
    assert seconds(peak=SLOW) == pytest.approx(150 * (work + prompts) / 1e9 / 0.4, rel=1e-3)


def test_a_conversation_grows_and_its_rows_are_prefixes_unless_they_are_packed_or_whole() -> None:
    short = PROMPTS._replace(limit=10)
    whole = seconds("update.row_layout=trajectory", name="instruct", peak=SLOW, prompts=short)
    turns = seconds("update.row_layout=turn", "update.packing=padded", name="instruct", peak=SLOW, prompts=short)
    packed = seconds("update.row_layout=turn", "update.packing=packed", name="instruct", peak=SLOW, prompts=short)
    assert packed == whole
    assert 3 < turns / whole < 5.5  # 5.5 of the update; sampling stays


def test_a_conversation_that_fills_the_context_ends() -> None:
    ended, cut = (seconds(name="instruct", prompts=PROMPTS._replace(later=later)) for later in (9000.0, 90_000.0))
    assert 0.3 < cut / ended < 3


def test_sampling_takes_a_step_for_every_token_of_the_longest_completion() -> None:
    step = 150 * 50 * 512 * 28 * 6e-4
    assert seconds(peak=FAST) == pytest.approx(step)
    assert seconds("rollout.concurrent_groups=4", peak=FAST) == pytest.approx(4 * step)


@pytest.mark.parametrize(
    ("name", "overrides", "expected"),
    [
        ("gigpo_alfworld", (), 1 + 3 + 1 + 1),  # recomputed, forward and backward; old; reference
        ("gigpo_alfworld", ("model.gradient_checkpointing=false",), 5),
        ("gigpo_alfworld", ("update.loss.kl_weight=0",), 5),
        ("gigpo_alfworld", ("update.old_logprobs=sampler",), 5),
        ("gigpo_alfworld", ("update.minibatch_size=0",), 5),  # one step needs no old log-probabilities
        ("gigpo_alfworld", ("update.epochs=2",), 10),
        ("gigpo_alfworld_7b_lora", (), 1 + 2 + 1 + 1),  # no gradient of the frozen weights
        ("search_r1_ppo_wikisearch", (), 6 + 1 + 4),  # values, and the critic's own update
    ],
)
def test_forward_passes_that_an_iteration_is_worth(name: str, overrides: tuple[str, ...], expected: float) -> None:
    assert passes(recipe(name, *overrides)) == expected


def test_a_forward_pass_is_two_flop_per_weight_and_token_and_attention_on_top() -> None:
    assert forward_flops(SMALL, 1.0, 0.0) == 2 * SMALL.parameters
    assert forward_flops(SMALL, 1.0, 1000.0) - forward_flops(SMALL, 1.0, 0.0) == 2 * 28 * 12 * 128 * 1000


def test_evaluations_are_played_like_rollouts() -> None:
    # 120 tasks greedily and once more, every 5 of 150 iterations, before and after: 31 times
    played = 3600 * hours(SMALL, recipe("gigpo_alfworld", "evaluation.final_panel="), PROMPTS, FAST)
    assert played / seconds(peak=FAST) == pytest.approx(1 + 31 * 2 * 120 / (150 * 128))


def test_hours_grow_with_iterations_and_groups_and_on_a_slower_gpu() -> None:
    assert seconds("update.iterations=300") == pytest.approx(2 * seconds())
    assert seconds() < seconds("rollout.group_size=16") <= 2 * seconds()
    assert seconds(peak=GPUS["A100"]) > seconds()


def test_prompts_are_those_that_a_model_is_shown() -> None:
    settings = recipe("gigpo_sokoban_vl")
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)
    found = measured_prompts(settings, tasks, lambda text: 1)
    assert (found.limit, found.first) == (15, 37)  # a picture shows 6 × 6 cells of one token each
    assert measured_prompts(recipe("gigpo_sokoban", "rollout.max_turns=3"), tasks).limit == 3


@pytest.mark.parametrize(
    ("name", "gpu", "measured", "overrides"),
    [
        # tests/evidence/gpu: random weights, which never end a completion
        ("gigpo_sokoban", "H100", 20.37, ("update.packing=packed", "rollout.max_new_tokens=128", "env.options.max_steps=4",
                                          "generation.backend=vllm")),
        ("rewardflow_alfworld", "A100", 2 * 320.3, ()),  # table 7, two GPUs
    ],
)  # fmt: skip
def test_measured_iterations_are_within_the_range_and_the_line_says_where(
    name: str, gpu: str, measured: float, overrides: tuple[str, ...]
) -> None:
    settings = recipe(name, *ALONE, "update.iterations=1", *overrides)
    tasks = training_tasks(settings.env, settings.tasks, settings.seed)
    middle = 3600 * hours(SMALL, settings, measured_prompts(settings, tasks), GPUS[gpu])
    ratio = measured / middle
    assert 0.5 < ratio < 2.0
    assert f"{ratio:.1f}" in HOURS_MEASURED


def test_an_estimate_of_seconds_is_no_range_from_zero() -> None:
    assert {range_text(middle) for middle in (0.0, 1e-6, 0.004, 0.049)} == {"under 0.1"}
    assert range_text(0.05) == "0.025 to 0.1"
