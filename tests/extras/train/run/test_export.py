"""The policy of any checkpoint as a Hugging Face folder, and the best one by validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.training_runs import Make
from safetensors.torch import load_file

from creditflow.agents.language_model.pretrained import AGENT_FILE, open_pretrained
from creditflow.train import cli
from creditflow.train.rollout.evaluation import Evaluation
from creditflow.train.run.folder import keep_best


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(open_pretrained(str(folder), device="cpu", dtype="float32")[0].named_parameters())


def test_the_policy_of_a_checkpoint_is_exported_with_its_prompts(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    critic = ("credit.scheme=ppo_gae", "critic.kind=separate")  # whose weights lie in the checkpoint too
    run = trainer_of(config, "update.iterations=2", "checkpoint.every=1", "checkpoint.keep=0", *critic)
    run.run()
    for iterations in (1, 2):
        out = tmp_path / f"model-{iterations}"
        assert cli.main(["model", "export", str(run.folder), "--at", str(iterations), "--out", str(out)]) == 0
        stored = load_file(run.checkpoints / f"rl-000000{iterations}" / "weights.safetensors")
        exported = weights(out)
        assert all(torch.equal(stored[f"policy.{name}"], value) for name, value in exported.items())
        assert (out / AGENT_FILE).is_file()
    final = weights(run.folder / "model")
    assert all(torch.equal(final[name], value) for name, value in weights(tmp_path / "model-2").items())


def test_a_checkpoint_that_was_not_kept_is_refused_with_those_that_were(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trainer_of(config, "update.iterations=1", "checkpoint.every=1")
    run.run()
    assert cli.main(["model", "export", str(run.folder), "--at", "7", "--out", str(tmp_path / "model")]) == 3
    assert "no checkpoint after 7 iterations; there are: " in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def evaluation(successes: list[int]) -> Evaluation:
    return Evaluation(
        tuple(f"task {i}" for i in range(len(successes))),
        np.zeros(len(successes), np.bool_),
        np.array(successes),
        4,
        3.0,
        0.0,
        0,
    )


def test_the_best_policy_is_the_first_with_the_highest_success(tmp_path: Path) -> None:
    def save(folder: Path) -> None:
        (folder / "number").write_text(str(iteration))

    seen = []
    for iteration, successes in enumerate(([1, 1], [3, 1], [2, 2], [0, 1])):  # sampled success .25, .5, .5, .125
        keep_best(tmp_path, evaluation(successes), iteration, save)
        seen.append((tmp_path / "best" / "number").read_text())
    assert seen == ["0", "1", "1", "1"]
    assert json.loads((tmp_path / "best" / "creditflow_best.json").read_text()) == {"iteration": 1, "success": 0.5}


def test_a_run_keeps_its_best_policy(trainer_of: Make, config: dict[str, Any]) -> None:
    config["evaluation"] = {"panel": "small-v1:valid", "limit": 3, "samples": 1}
    config["env"]["options"]["max_steps"] = 3
    run = trainer_of(config, "update.iterations=1", "checkpoint.best=true")
    run.run()
    assert json.loads((run.folder / "best" / "creditflow_best.json").read_text())["iteration"] in (0, 1)
    assert weights(run.folder / "best").keys() == weights(run.folder / "model").keys()
