"""GPU hours of a run: tokens and arithmetic worked out on paper, and what the range does when a setting changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import creditflow
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import Task
from creditflow.train.run.estimate.hours import (
    GPUS,
    HIGH,
    LOW,
    Gpu,
    Hours,
    Pace,
    Panels,
    episode_of,
    forward_flops,
    hours_of,
    hours_table,
    passes,
)
from creditflow.train.run.estimate.prompts import Prompts, measured_prompts
from creditflow.train.run.estimate.sizes import KNOWN
from creditflow.train.settings.schema import TrainConfig, load_settings

FOLDER = Path(__file__).parents[3] / "train" / "configs"
SMALL = KNOWN["Qwen/Qwen2.5-1.5B"]
PROMPTS = Prompts(turns=10, limit=50, first=300, later=400, action=20)
ALL = Pace(
    longest=True, completion=1.0, slowest=1.0, arithmetic=1.0, bandwidth=1.0, launch=0.0, captured=0.0, attempts=True
)
ALONE = ("evaluation.panel=", "evaluation.final_panel=", "evaluation.every=0")


def recipe(name: str, *overrides: str) -> TrainConfig:
    return load_settings(FOLDER / f"{name}.yaml", overrides)


def hours(settings: TrainConfig, gpu: Gpu = GPUS["H100"], pace: Pace = HIGH, panels: tuple[int, int] = (0, 0)) -> Hours:
    return hours_of(SMALL, settings, PROMPTS, gpu, pace, Panels(*panels))


def test_windowed_prompts_are_read_anew_every_turn_and_a_conversation_grows() -> None:
    turns = episode_of(PROMPTS, recipe("gigpo_alfworld"), LOW)  # completions of 512 / 8
    assert (turns.turns, turns.prompts, turns.completions) == (10, 300 + 9 * 400, 640)
    assert (turns.rows, turns.length) == (4540, 454)
    whole = episode_of(PROMPTS, recipe("instruct"), LOW)
    assert (whole.prompts, whole.rows, whole.length) == (3900, 4540, 4540)
    padded = episode_of(PROMPTS, recipe("instruct", "update.row_layout=turn", "update.packing=padded"), LOW)
    assert padded.rows == 5.5 * 4540  # the prefixes, on average half of it


def test_no_row_is_longer_than_the_context() -> None:
    long = replace(PROMPTS, later=9000.0)
    assert episode_of(long, recipe("gigpo_alfworld"), HIGH).length <= 2560
    assert episode_of(long, recipe("instruct"), HIGH).length == pytest.approx(8192)


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
    assert forward_flops(SMALL, 1.0, 0.0) == 2 * (SMALL.parameters - SMALL.hidden)  # but for the last norm
    assert forward_flops(SMALL, 1.0, 1000.0) - forward_flops(SMALL, 1.0, 0.0) == 2 * 28 * 12 * 128 * 1000
    vision = KNOWN["Qwen/Qwen2.5-VL-3B"]
    assert forward_flops(vision, 1.0, 0.0, 1.0) - forward_flops(vision, 1.0, 0.0) == 2 * 668684288 * 4


def test_an_update_takes_as_long_as_its_arithmetic() -> None:
    settings = recipe("gigpo_alfworld", *ALONE)
    rows = 128 * (300 + 49 * 400 + 50 * 512)
    work = 150 * 6 * forward_flops(SMALL, rows, rows / 128 / 50)
    assert hours(settings, Gpu(1e15, 1e30), ALL).update == pytest.approx(work / 1e15 / 3600)


def test_sampling_takes_as_long_as_reading_the_weights_and_the_cache_or_as_starting_kernels() -> None:
    settings = recipe("gigpo_alfworld", *ALONE)
    steps, length = 150 * 50 * 512, (300 + 49 * 400) / 50 + 512
    read = 2 * (SMALL.parameters + 128 * 28 * 2 * 128 * length)  # half of a key and a value per layer, head and token
    assert hours(settings, Gpu(1e30, 1e12), ALL).rollout == pytest.approx(steps * read / 1e12 / 3600)
    slow = replace(ALL, launch=1e-3)
    assert hours(settings, Gpu(1e30, 1e30), slow).rollout == pytest.approx(steps * 28 * 1e-3 / 3600)
    in_turn = recipe("gigpo_alfworld", *ALONE, "rollout.concurrent_groups=4")
    assert hours(in_turn, Gpu(1e30, 1e30), slow).rollout == pytest.approx(4 * steps * 28 * 1e-3 / 3600)


def test_kernels_start_one_by_one_unless_the_sampler_captures_them() -> None:
    gpu = Gpu(1e30, 1e30)  # neither arithmetic nor reading takes time
    eager = hours(recipe("gigpo_alfworld", *ALONE), gpu, LOW).rollout
    # 10 turns of 128 tokens, a quarter of the limit, in 150 iterations; 28 layers of 39 kernels, 5 µs each
    assert eager == pytest.approx(150 * 10 * 128 * 28 * 39 * 5e-6 / 3600)
    for captured in (
        ("rollout.cache=static", "rollout.compile=true"),
        ("generation.backend=vllm",),
    ):
        assert hours(recipe("gigpo_alfworld", *ALONE, *captured), gpu, LOW).rollout < eager / 9
    refused = ("generation.backend=vllm", "generation.vllm.eager=true")
    assert hours(recipe("gigpo_alfworld", *ALONE, *refused), gpu, LOW).rollout == eager


def test_evaluations_are_counted_and_nothing_else_changes_with_them() -> None:
    settings = recipe("gigpo_alfworld")  # every 5 of 150 iterations, before and after: 31 times
    none, some, final = (hours(settings, panels=panels) for panels in ((0, 0), (100, 0), (0, 100)))
    assert none.evaluation == 0.0 and none[:2] == some[:2]
    assert some.evaluation == pytest.approx(31 * final.evaluation)
    waves = [hours(settings, pace=LOW, panels=(0, tasks)).evaluation for tasks in (128, 256)]  # as many as in a rollout
    assert waves[1] == pytest.approx(2 * waves[0])


def test_hours_grow_with_iterations_groups_and_rounds_of_dynamic_sampling() -> None:
    base = hours(recipe("gigpo_alfworld"))
    assert hours(recipe("gigpo_alfworld", "update.iterations=300")).total == pytest.approx(2 * base.total)
    assert hours(recipe("gigpo_alfworld", "rollout.group_size=16")).update == pytest.approx(2 * base.update)
    dynamic = recipe("gigpo_alfworld", "rollout.dynamic_sampling=true", "rollout.attempts=3")
    assert hours(dynamic).rollout == pytest.approx(3 * base.rollout)
    assert hours(dynamic, pace=LOW).rollout == pytest.approx(hours(recipe("gigpo_alfworld"), pace=LOW).rollout)
    assert (
        hours(recipe("gigpo_alfworld"), GPUS["A100"]).total
        > base.total
        > hours(recipe("gigpo_alfworld"), pace=LOW).total
    )


def environment(settings: TrainConfig) -> AgentEnv[Any, Any, Any]:
    return cast("AgentEnv[Any, Any, Any]", creditflow.make(settings.env.name, **settings.env.options).unwrapped)


def tasks_of(settings: TrainConfig) -> list[Task]:
    source = environment(settings).tasks
    return [source.get(one) for one in source.task_ids()[:8]]


def test_turns_and_prompts_are_those_of_the_expert() -> None:
    settings = recipe("gigpo_sokoban_vl")
    tasks = tasks_of(settings)
    found = measured_prompts(settings, tasks, lambda text: 1)
    env, distances = environment(settings), []
    for task in tasks:
        env.reset(options={"task_id": task.task_id})
        distances.append(env.oracle.distance(env.get_state()))
    assert found.turns == pytest.approx(sum(min(15, one) for one in distances) / 8)
    # a picture shows 6 × 6 cells of one token each
    assert (found.limit, found.pictures, found.first, found.action) == (15, 36, 37, 1)
    assert measured_prompts(recipe("gigpo_sokoban", "rollout.max_turns=3"), tasks).limit == 3


def test_a_table_says_what_it_assumes_and_without_an_oracle_why_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = recipe("gigpo_sokoban")
    table = hours_table(SMALL, settings, tasks_of(settings), Panels())
    assert table.startswith("GPU hours, estimated") and "unverified: counted with episodes of" in table
    tasks = tasks_of(settings)

    def missing(_env: SokobanEnv) -> None:
        raise ConfigError("there is no oracle")

    monkeypatch.setattr(SokobanEnv, "oracle", property(missing))
    assert hours_table(SMALL, settings, tasks, Panels()).endswith("there is no oracle")
