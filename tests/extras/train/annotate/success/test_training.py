"""Success models: a run, its annotations, and what is rejected."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.episodes.look_episodes import episodes, labels_of
from helpers.run_content import run_content

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.annotate.success.labels import Labels, write_labels
from creditflow.train.annotate.success.training import SuccessTrainer, evaluate_success
from creditflow.train.cli import main
from creditflow.train.policy.failures import DivergedError
from creditflow.wrappers.records.jsonl import read_groups


# -- a run ------------------------------------------------------------------------------------------------------------------
def test_a_model_learns_which_look_is_the_pivot(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    overrides = ("steps=300", "batch=12", "optimizer.lr=5e-3", "data.valid=0.0", "loss.non_pivot_weight=1.0")
    trainer = trainer_of(data, *overrides)
    trainer.run()
    result = evaluate_success(trainer.model, trainer.train, "paper", 4096)
    assert result["pivot_auc"] > 0.9
    # figure 5: step rewards of pivots and of the others part during training
    records = [json.loads(line) for line in (trainer.folder / "metrics.jsonl").read_text().splitlines()]
    gaps = [row["reward_pivot"] - row["reward_other"] for row in records if "reward_pivot" in row]
    assert gaps[-1] > 1.0 > abs(gaps[0])


@pytest.mark.parametrize("kind", ["paper", "hazard"])
def test_a_resumed_run_is_bit_equal(kind: str, data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]) -> None:
    overrides = (f"loss.kind={kind}",)
    whole = trainer_of(data, *overrides)
    whole.run()
    expected = run_content(whole.folder)
    shutil.rmtree(whole.checkpoints / "sft-0000004")
    resumed = trainer_of(data, *overrides, resume=True)
    assert resumed.progress.done == 2
    resumed.run()
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name
    assert run_content(resumed.folder) == expected  # every file, its records and the tokenizer's settings among them


def test_recomputed_activations_do_not_change_a_run(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    kept = trainer_of(data)
    kept.run()
    data["out"] += "2"
    recomputed = trainer_of(data, "model.gradient_checkpointing=true")
    recomputed.run()
    for name, weight in kept.model.state_dict().items():
        torch.testing.assert_close(recomputed.model.state_dict()[name], weight, rtol=1e-5, atol=1e-6)


def test_a_folder_with_a_run_is_not_overwritten(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    trainer_of(data).run()
    with pytest.raises(ConfigError, match="already contains a run"):
        trainer_of(data)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_state(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    trainer = trainer_of(data)
    with torch.no_grad():
        trainer.model.score.weight.fill_(float("nan"))
    with pytest.raises(DivergedError, match="not finite"):
        trainer.run()
    assert (Path(data["out"]) / "diverged").is_dir()


def test_the_command_trains_and_annotates(
    data: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "success.json"
    config.write_text(json.dumps(data))
    assert main(["train", str(config), "--dry-run"]) == 0
    assert main(["train", str(config)]) == 0
    assert "validation: pivot_auc" in capsys.readouterr().out
    out = tmp_path / "rated.jsonl"
    model = f"success:{data['out']}/model"
    assert main(["annotate", "--with", model, "--device", "cpu", data["data"]["log"], "--out", str(out)]) == 0
    groups = read_groups(out)
    assert '"annotator":"success"' in groups[0].trajectories[0].provenance["value.pica"]
    scored = credit.make("pica").assign(groups[0])
    assert np.isfinite(scored.flat_advantages).all()
    assert scored.flat_step_rewards.any()
    config.write_text(json.dumps(data | {"kind": "success_modle"}))
    assert main(["train", str(config)]) == 2
    assert "did you mean 'success_model'" in capsys.readouterr().err


# -- data that do not fit -----------------------------------------------------------------------------------------------------
def test_labels_that_do_not_match_turns_are_rejected(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    one, *others = labels_of(episodes())
    short = Labels(one.group_id, one.trajectory_id, one.turn_labels[1:], one.success, "rule")
    write_labels(data["data"]["labels"], [short, *others])
    with pytest.raises(DataError, match="2 turn labels for 3 turns"):
        trainer_of(data)


def test_labels_of_another_log_are_rejected(data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]) -> None:
    write_labels(data["data"]["labels"], [*labels_of(episodes()), Labels("g99", "0", ("+",), True, "rule")])
    with pytest.raises(DataError, match="1 labels belong to no trajectory of the log"):
        trainer_of(data)


def test_episodes_too_long_for_the_model_are_counted(
    data: dict[str, Any], trainer_of: Callable[..., SuccessTrainer]
) -> None:
    with pytest.raises(DataError, match="24 were too long"):
        trainer_of(data, "model.scratch.positions=16")
