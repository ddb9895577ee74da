"""verl's own dump of rollouts, written by its trainer's function, as a log."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from creditflow.train.adapters.logs.episodes import ImportSettings
from creditflow.train.adapters.logs.reading import read_log

pytestmark = pytest.mark.verl


@pytest.mark.parametrize("module", ["verl.trainer.ppo.ray_trainer", "verl.trainer.ppo.v1.trainer_base"])
def test_the_rollouts_that_verl_dumps_are_groups_with_its_scores(module: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():  # verl warns of engines that are not installed, Ray of a module that verl imports
        warnings.simplefilter("ignore")
        names = vars(import_module(module))
    trainers: list[Any] = [
        value for value in names.values()
        if isinstance(value, type) and value.__module__ == module and "_write_generations" in vars(value)
    ]  # fmt: skip
    [trainer] = trainers
    outputs = [f"go {i}\nuser\nroom {i % 2}\nassistant\ndone" for i in range(4)]
    inputs = [f"system\nYou walk.\nuser\ntask {i // 2}\nassistant\n" for i in range(4)]
    # numbers of NumPy, as reward functions return them
    extra = {"acc": [np.float64(i % 2) for i in range(4)], "uid": [f"s_{i // 2}_{i % 2}_0" for i in range(4)]}
    scores = [float(i % 2) for i in range(4)]
    trainer._write_generations(inputs, outputs, [None] * 4, scores, extra, str(tmp_path), 17)
    report = read_log("verl", tmp_path / "17.jsonl", ImportSettings(success="acc", strict=True))
    assert [len(group) for group in report.groups] == [2, 2]
    members = [member for group in report.groups for member in group.trajectories]
    assert [(member.success, member.episode_return) for member in members] == [(False, 0.0), (True, 1.0)] * 2
    assert [[turn.response for turn in member.turns] for member in members] == [[f"go {i}", "done"] for i in range(4)]
    assert members[0].turns[1].observation == "room 0"
