"""Whole runs at toy size: equalities between schemes, resume after faults, failures that lose nothing."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.models.training_runs import Make, metrics, same, weights
from safetensors.torch import save_file

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.policy import checkpoint as checkpoint_module
from creditflow.train.policy.checkpoint import latest_checkpoint
from creditflow.train.policy.failures import DivergedError
from creditflow.train.policy.update import update_policy
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.trainer import Trainer


@pytest.fixture
def finished(trainer_of: Make, config: dict[str, Any]) -> Trainer:
    run = trainer_of(config)
    run.run()
    iterations = [r for r in read_metrics(run.logger.path) if r["kind"] == "iteration"]
    # the runs that are compared below must have learned something
    assert all(0.0 < r["success"] < 1.0 and r["grad_norm"] > 0.0 for r in iterations), iterations
    return run


def test_equal_seeds_give_equal_runs_and_other_seeds_do_not(
    trainer_of: Make, config: dict[str, Any], finished: Trainer, tmp_path: Path
) -> None:
    again, other = trainer_of(config, f"out={tmp_path}/again"), trainer_of(config, f"out={tmp_path}/other", "seed=9")
    again.run()
    other.run()
    assert same(weights(again), weights(finished))
    assert metrics(again) == metrics(finished)
    assert not same(weights(other), weights(finished))


def test_every_iteration_logs_the_documented_metrics(finished: Trainer) -> None:
    records = [r for r in read_metrics(finished.logger.path) if r["kind"] == "iteration"]
    assert [r["step"] for r in records] == [1, 2, 3]
    documented = {
        "seconds_rollout", "seconds_logprobs", "seconds_graph", "seconds_credit", "seconds_update", "prompt_tokens",
        "completion_tokens", "invalid_fraction", "entropy", "graph_nodes", "graph_edges", "unique_states",
        "groups_with_success", "step_credit_fraction", "sampler_mismatch_max", "success", "groups_discarded", "env_errors",
    }  # fmt: skip
    assert all(documented <= r.keys() for r in records)
    assert all(r["sampler_mismatch_max"] < 1e-4 for r in records)
    assert all(r["first_step_ratio_deviation"] == 0.0 for r in records)


def test_micro_batches_do_not_change_a_run(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path, finished: Trainer
) -> None:
    run = trainer_of(config, f"out={tmp_path}/split", "update.batch_tokens=60")
    run.run()
    for name, parameter in weights(run).items():
        torch.testing.assert_close(parameter, weights(finished)[name], rtol=1e-3, atol=1e-3)


def test_a_loss_that_is_not_finite_stops_the_run_and_saves_its_state_with_a_report(
    trainer_of: Make, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer_of(config)
    real = update_policy

    def poisoned(model: Any, *args: Any, **kwargs: Any) -> Any:
        if run.progress.done == 1:
            with torch.no_grad():
                next(model.parameters())[:] = float("nan")
        return real(model, *args, **kwargs)

    monkeypatch.setattr("creditflow.train.trainer.update_policy", poisoned)
    with pytest.raises(DivergedError, match="the loss is nan in optimiser step 0"):
        run.run()
    report = json.loads((run.folder / "diverged" / "report.json").read_text())
    assert (report["phase"], report["done"]) == ("rl", 1)
    assert report["trajectories"]
    assert latest_checkpoint(run.folder / "diverged") is not None
    last = latest_checkpoint(run.checkpoints)
    assert last is not None
    assert last.name == "rl-0000001"


def test_a_full_disk_leaves_the_last_checkpoint_intact(
    trainer_of: Make, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer_of(config)
    real, calls = save_file, 0

    def full(tensors: Any, path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 6:  # the moments of the third checkpoint
            raise OSError(errno.ENOSPC, "No space left on device")
        real(tensors, path)

    monkeypatch.setattr(checkpoint_module, "save_file", full)
    with pytest.raises(DataError, match=r"rl-0000002: .*No space left.*the latest complete checkpoint is .*rl-0000001"):
        run.run()
    assert sorted(p.name for p in run.checkpoints.iterdir()) == ["rl-0000000", "rl-0000001"]
    monkeypatch.undo()
    trainer_of(config, resume=True).run()


def test_another_checkpoint_version_is_rejected(trainer_of: Make, config: dict[str, Any], finished: Trainer) -> None:
    last = latest_checkpoint(finished.checkpoints)
    assert last is not None
    state = json.loads((last / "state.json").read_text())
    (last / "state.json").write_text(json.dumps(state | {"format_version": 99}))
    with pytest.raises(DataError, match="format_version 99, this version of creditflow reads 1"):
        trainer_of(config, resume=True)


def test_another_models_checkpoint_is_rejected(trainer_of: Make, config: dict[str, Any], finished: Trainer) -> None:
    assert finished.checkpoints.is_dir()
    with pytest.raises(DataError, match="not those of this model"):
        trainer_of(config, "model.scratch.layers=3", resume=True)


def test_a_folder_with_a_run_is_not_overwritten(trainer_of: Make, config: dict[str, Any], finished: Trainer) -> None:
    with pytest.raises(ConfigError, match=f"continue it with --resume {finished.folder}"):
        trainer_of(config)


def test_the_written_model_plays_as_an_agent(trainer_of: Make, config: dict[str, Any], finished: Trainer) -> None:
    from creditflow.agents.language_model.pretrained import make_hf_agent
    from creditflow.train.rollout.engine import RolloutEngine
    from creditflow.train.rollout.tasks import group_env_factory

    agent = make_hf_agent(str(finished.folder / "model"), device="cpu")
    for token in finished.tokenizer.get_vocab():
        text = finished.tokenizer.convert_tokens_to_string([token])
        assert agent.conversations.chat.encode_completion(text)[:-1].tolist() == finished.tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
    assert agent.sampling == finished.settings.sampling
    engine = RolloutEngine(group_env_factory(finished.settings.env, 2))
    [group] = engine.play(agent, finished.tasks[:1], seed=0)
    assert group.trajectories[0].tokens is not None
