"""The commands ``train`` and ``eval``: a dry run writes nothing, wrong use is explained."""

from __future__ import annotations

import argparse
import json
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.cli import main
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.reading import write_yaml
from creditflow.wrappers.records.jsonl import read_jsonl


def call(name: str, *arguments: str) -> int:
    module = import_module(f"creditflow.train.commands.{name}")
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(arguments)))


@pytest.fixture
def file(config: dict[str, Any], tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    write_yaml(path, config)
    return str(path)


def test_a_dry_run_prints_the_resolved_config_and_writes_nothing(
    file: str, config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("train", file, "--dry-run", "--set", "update.iterations=77") == 0
    out = capsys.readouterr()
    assert "iterations: 77" in out.out
    assert "77 iterations of 2 x 4 episodes" in out.err
    assert not Path(config["out"]).exists()


@pytest.mark.parametrize(
    ("gpus", "options", "proposed"),
    [(4, (), True), (1, (), False), (4, ("--engine", "creditflow"), False), (4, ("--set", "device=cpu"), False)],
)
def test_verl_is_proposed_where_this_trainer_would_leave_gpus_unused(
    gpus: int, options: tuple[str, ...], proposed: bool, file: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from creditflow.train.trainer import Trainer

    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setattr(Trainer, "__init__", lambda *_, **__: None)
    monkeypatch.setattr(Trainer, "run", lambda _: None)
    device = () if "device=cpu" in options else ("--set", "device=auto")
    assert call("train", file, *device, *options) == 0
    said = capsys.readouterr().err
    assert ("4 GPUs are visible" in said and "--engine verl" in said) == proposed


def test_train_then_resume_with_more_iterations_then_eval(
    file: str, config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], forgotten: None
) -> None:
    assert call("train", file, "--set", "update.iterations=1") == 0
    assert call("train", "--resume", config["out"], "--set", "update.iterations=2") == 0
    assert "iteration 2/2" in capsys.readouterr().out
    model = f"hf:{config['out']}/model"
    assert call("eval", "--agent", model, "--panel", "small-v1:valid", "--limit", "2", "--samples", "2", "--json",
                "--env-set", "max_steps=2", "--device", "cpu") == 0  # fmt: skip
    summary = json.loads(capsys.readouterr().out)
    assert summary["tasks"] == 2
    assert {"greedy_ci_low", "sampled_ci_high", "pass@2", "invalid_fraction", "score_ci_low"} <= summary.keys()
    assert [(row["name"], row["tasks"]) for row in summary["table"]] == [("All", 2)]
    log = tmp_path / "log.jsonl"
    for kind, env, more in (("react", "sokoban", ()), ("reflexion", "alfworld", ("--trials", "2")),
                            ("react", "webshop", ()), ("react", "wikisearch", ())):  # fmt: skip
        panel = f"{'small' if env == 'sokoban' else 'standard'}-v1:valid"
        assert call("eval", "--agent", f"{kind}:{model}", "--env", env, "--panel", panel, "--limit", "2", "--samples", "1",
                    "--json", "--env-set", "max_steps=2", "--device", "cpu", "--out", str(log), *more) == 0  # fmt: skip
        summary = json.loads(capsys.readouterr().out)
        assert (len(summary["table"]) > 1) is (env in ("alfworld", "wikisearch"))
        assert set(summary["table"][0]["rewards"]) == ({"EM", "F1"} if env == "wikisearch" else set())
        assert {
            "pass@1",
            "score",
            "score_ci_low",
            "score_ci_high",
            "sampled_ci_low",
            "greedy_ci_high",
        } <= summary.keys()
        assert ("solved_by_trial_2" in summary) is (kind == "reflexion")
        played = list(read_jsonl(log))
        assert {one.policy for one in played} == {f"{kind}:{model}"}
        assert len(played) >= 4


def test_a_config_or_a_folder_but_not_both(file: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="either a CONFIG"):
        call("train")
    with pytest.raises(ConfigError, match="either a CONFIG"):
        call("train", file, "--resume", str(tmp_path))
    with pytest.raises(DataError, match="is not the folder of a run"):
        call("train", "--resume", str(tmp_path / "nothing"))


def test_eval_needs_a_model_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hf:PATH"):
        call("eval", "--agent", "random", "--panel", "small-v1:valid")
    with pytest.raises(DataError, match=r"no config\.json"):
        call("eval", "--agent", f"hf:{tmp_path}", "--panel", "small-v1:valid")


def test_the_settings_of_a_new_environment_train_by_the_printed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], forgotten: None
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "env", "hall", "--out", "own work"]) == 0
    shown = capsys.readouterr()
    [printed] = [line for line in (shown.out + shown.err).splitlines() if line.startswith("train in it: creditflow ")]
    assert main(shlex.split(printed.removeprefix("train in it: creditflow "))) == 0
    records = [record for record in read_metrics(Path("runs/hall/metrics.jsonl")) if record["kind"] == "iteration"]
    assert len(records) == 10
    assert main(["eval", "--agent", "hf:runs/hall/model", "--env", "own work/hall.py:Hall", "--panel", "lengths:test", "--samples", "1"]) == 0  # fmt: skip


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("command", ["eval", "eval --exact", "rollout"])
def test_a_model_whose_weights_are_no_numbers_is_an_error(
    command: str,
    value: float,
    config: dict[str, Any],
    trainer_of: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trainer_of(config, "sft.episodes=0", "update.iterations=0", "prompting.history=window", "prompting.window=0").run()
    [weights] = Path(config["out"], "model").glob("*.safetensors")
    tensors = load_file(weights)
    save_file({name: tensor.fill_(value) for name, tensor in tensors.items()}, weights, metadata={"format": "pt"})
    name, *more = command.split()
    out = tmp_path / "log.jsonl"
    given = ["--group-size", "2", "--out", str(out)] if name == "rollout" else ["--device", "cpu"]
    place = ["--panel", "small-v1:valid", "--limit", "1", "--env-set", "max_steps=2"]
    assert main([name, *more, "--agent", f"hf:{config['out']}/model", *place, *given]) == 3
    assert "the model computes NaN instead of probabilities" in capsys.readouterr().err
    assert not out.exists()
