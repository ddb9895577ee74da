"""TRL's own table of completions, written by a training step of its trainer, as a log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from creditflow.train.adapters.logs.episodes import ImportSettings
from creditflow.train.adapters.logs.reading import read_log

pytestmark = pytest.mark.trl


def test_the_completions_that_trl_logs_are_groups_with_its_rewards_and_advantages(
    arguments: Callable[..., Any], tmp_path: Path
) -> None:
    import pyarrow.parquet
    from datasets import Dataset
    from trl import GRPOTrainer

    from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

    config = ScratchConfig(hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, vocabulary=280, init=0.2)
    tokenizer = build_tokenizer(["up down left right"] * 4, config)

    def length(completions: Any, **_: Any) -> list[float]:
        return [float(len(text) % 2) for text in completions]

    def first(completions: Any, **_: Any) -> list[float | None]:
        return [None if not text else float(ord(text[0]) % 3) for text in completions]

    trainer = GRPOTrainer(
        build_model(config, tokenizer, seed=3),
        reward_funcs=[length, first],
        args=arguments(
            max_steps=1, per_device_train_batch_size=8, num_generations=4, max_completion_length=6, log_completions=True,
            reward_weights=[1.0, 0.5],
        ),
        train_dataset=Dataset.from_list([{"prompt": "up down"}, {"prompt": "left right"}]),
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    [path] = (tmp_path / "run" / "completions").glob("*.parquet")
    rows = pyarrow.parquet.read_table(path).to_pylist()
    report = read_log("trl", path, ImportSettings(reward="length,first*0.5", turns="single", strict=True))
    assert [len(group) for group in report.groups] == [4, 4]
    members = [member for group in report.groups for member in group.trajectories]
    by_prompt = sorted(rows, key=lambda row: [g.turns[0].observation for g in report.groups].index(row["prompt"]))
    for member, row in zip(members, by_prompt, strict=True):
        [turn] = member.turns
        assert (turn.observation, turn.response) == (row["prompt"], row["completion"].strip())
        assert member.episode_return == row["length"] + 0.5 * (0.0 if row["first"] is None else row["first"])
        assert member.values["advantage.recorded"] == pytest.approx(row["advantage"])
