"""Speeds that an iteration logs: tokens per second, shares of time, and the fraction of a GPU's arithmetic that is used."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.episodes.search_logs import TASK, question, rollout
from helpers.models.training_runs import Make

from creditflow import credit
from creditflow.train.policy.samples import Row
from creditflow.train.rollout.engine import RolloutReport
from creditflow.train.run.estimate import ModelSizes, forward_flops
from creditflow.train.run.iteration_log import (
    entity_sums,
    format_iteration,
    iteration_metrics,
    peak_flops,
    rollout_sums,
    row_sums,
    speeds,
)
from creditflow.train.run.metrics_log import read_metrics

SECONDS = {"rollout": 4.0, "logprobs": 1.0, "graph": 0.5, "credit": 0.5, "update": 4.0}
SUMS = {"completion_tokens": 800.0, "row_tokens": 3000.0, "row_flops": 2e13}


def test_speeds_are_tokens_over_the_seconds_of_their_stage_and_shares_add_up() -> None:
    found = speeds(SUMS, SECONDS)
    assert found["speed_sampled_tokens"] == 200.0
    assert found["speed_trained_tokens"] == 600.0
    assert found["speed_share_rollout"] == 0.4
    assert sum(value for name, value in found.items() if name.startswith("speed_share")) == pytest.approx(1.0)
    assert "speed_mfu" not in found  # of an unknown device


def test_mfu_is_the_arithmetic_of_the_passes_over_what_the_gpus_could_do() -> None:
    assert speeds(SUMS, SECONDS, peak=8e12)["speed_mfu"] == pytest.approx(0.5)
    assert "MFU 50.0%" in format_iteration(1, 2, speeds(SUMS, SECONDS, peak=8e12), SECONDS)


def test_the_arithmetic_of_rows_is_that_of_their_passes_without_recomputation(
    trainer_of: Make, config: dict[str, Any]
) -> None:
    run = trainer_of(config, "model.gradient_checkpointing=true")
    empty = np.zeros(0)
    rows = [
        Row(np.zeros(n, np.int32), empty.astype(np.int64), empty, empty.astype(np.float32), empty.astype(np.int32), 0)
        for n in (5, 7)
    ]
    found = row_sums(rows, run.model, run.settings)
    sizes = ModelSizes.of(run.model)
    assert sizes is not None
    assert found["row_tokens"] == 12
    forward = forward_flops(sizes, 5, 5) + forward_flops(sizes, 7, 7)
    plain = trainer_of(config, f"out={run.folder}-plain", "model.gradient_checkpointing=false")
    assert found == row_sums(rows, plain.model, plain.settings)
    assert found["row_flops"] / forward >= 3.0  # a pass forward and two backward


@pytest.mark.parametrize(
    ("name", "peak"),
    [("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA A100-SXM4-80GB", 312e12), ("NVIDIA GeForce RTX 4090", 0.0)],
)
def test_a_device_is_known_by_its_data_sheet(monkeypatch: pytest.MonkeyPatch, name: str, peak: float) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    assert peak_flops(SimpleNamespace(type="cuda")) == peak
    assert peak_flops(torch.device("cpu")) == 0.0


def test_every_iteration_logs_its_speeds(trainer_of: Make, config: dict[str, Any]) -> None:
    run = trainer_of(config, "update.iterations=1")
    run.run()
    [record] = [r for r in read_metrics(run.logger.path) if r["kind"] == "iteration"]
    assert record["speed_sampled_tokens"] == pytest.approx(record["completion_tokens"] / record["seconds_rollout"])
    assert record["speed_trained_tokens"] > 0.0
    assert record["speed_share_update"] == pytest.approx(record["seconds_update"] / record["seconds"])


def test_curves_of_search_agents_are_entity_matches_tool_calls_and_turns_without_a_new_state() -> None:
    # four entities; one rollout's thoughts name Nolan and London, the other's nothing: (2/4 + 0) / 2 = 1/4
    searching = rollout("a", [("Nolan made it, born in London", "a page")], True)
    call, answer = searching.turns
    searching = replace(searching, turns=(replace(call, queries=("it",)), answer))
    idle = rollout("b", [("hm", "a page")], False)
    idle = replace(idle, turns=(replace(idle.turns[0], effective=False), idle.turns[1]))
    groups = [question(searching, idle)]
    report = RolloutReport()
    sums = rollout_sums(groups, [credit.make("grpo").assign(group) for group in groups], report, 0)
    found = iteration_metrics(sums | entity_sums(groups) | {"graphs": 0})
    assert found["entity_match_rate"] == 0.25
    assert found["tool_calls"] == 0.5
    assert found["invalid_state_fraction"] == 0.25  # one of four turns


def test_the_rate_counts_the_entities_that_egrpo_counts() -> None:
    # the construction replaced Nolan and Paris, and the question names Paris: Nolan alone counts, and one of two rollouts names it
    task = {**TASK, "construction_entities": ["Nolan", "Paris"], "text": "Who filmed Paris?"}
    group = question(rollout("a", [("Nolan", "-")], True), rollout("b", [("Paris, London", "-")], False), task=task)
    assert entity_sums([group]) == {"episodes_with_entities": 2, "entity_match_rates": 1.0}
