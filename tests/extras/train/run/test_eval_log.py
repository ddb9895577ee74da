"""``eval --out``: one group per task, written as it is played, and continued after an interruption; options of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.models.pretrained import pretrained_folder

from creditflow.agents.language_model.pretrained import ModelOptions, make_hf_agent
from creditflow.envs.errors import ConfigError
from creditflow.train.cli import main
from creditflow.train.commands import eval as command
from creditflow.wrappers.records.jsonl import read_groups

ARGUMENTS = ("--panel", "small-v1:valid", "--limit", "5", "--samples", "2", "--env-set", "max_steps=3", "--max-new-tokens", "4",
             "--prompt", "action-v1", "--dialect", "bare", "--history", "window", "--window", "1", "--threads", "1")  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(pretrained_folder(tmp_path / "model"))


def evaluated(model: str, log: Path, *more: str) -> int:
    return main(["eval", "--agent", f"hf:{model}", *ARGUMENTS, "--out", str(log), *more])


def test_a_task_is_one_group_that_credit_compares(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "eval.jsonl"
    assert evaluated(model, log, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    groups = list(read_groups(log))
    assert [len(group) for group in groups] == [3] * 5 and printed["tasks"] == 5
    assert [[member.replica for member in group.trajectories] for group in groups] == [[0, 1, 2]] * 5
    sampled = [member.success for group in groups for member in group.trajectories[1:]]
    assert printed["sampled"] == pytest.approx(sum(sampled) / len(sampled))
    assert main(["credit", "--scheme", "grpo", str(log)]) == 0


def test_an_interrupted_evaluation_is_continued_to_the_same_log(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "WAVE_ON_CPU", 2)
    assert evaluated(model, tmp_path / "whole.jsonl") == 0
    whole = capsys.readouterr().out
    written = []

    def stopped(groups: Any, *_: Any) -> Any:
        for group in groups:
            written.append(group)
            yield group
            if len(written) == 3:
                raise KeyboardInterrupt

    log = tmp_path / "log.jsonl"
    with monkeypatch.context() as patched:
        patched.setattr(command, "progress", stopped)
        assert evaluated(model, log) == 130
    assert not log.exists()
    assert len(list(read_groups(tmp_path / "log.jsonl.partial"))) == 3
    assert evaluated(model, log) == 2  # neither --resume nor --force
    capsys.readouterr()
    assert evaluated(model, log, "--resume") == 0
    printed = capsys.readouterr()
    assert "resuming after 2 of 5 tasks" in printed.err and printed.out == whole
    assert log.read_text() == (tmp_path / "whole.jsonl").read_text()
    (tmp_path / "log.jsonl.partial").write_text(log.read_text())
    log.unlink()
    assert evaluated(model, log, "--resume", "--temperature", "0.5") != 0
    assert "temperature" in capsys.readouterr().err


def test_options_change_what_the_folder_says(model: str) -> None:
    options = ModelOptions(
        prompt="terse-v1", dialect="bare", window=0, dtype="bfloat16", max_new_tokens=3, temperature=0.5
    )
    agent = make_hf_agent(model, options=options)
    assert str(agent.backend.model.dtype) == "torch.bfloat16"  # type: ignore[attr-defined] # of transformers
    assert (agent.conversations.prompt.name, agent.conversations.history, agent.conversations.window) == (
        "terse-v1",
        "window",
        0,
    )
    assert (agent.sampling.max_new_tokens, agent.sampling.temperature) == (3, 0.5)
    with pytest.raises(ConfigError, match="--dtype"):
        make_hf_agent(model, options=ModelOptions(dtype="int4"))


@pytest.mark.parametrize(
    ("agent", "option"),
    [
        ("random", "--prompt"),
        ("expert", "--dtype"),
        ("react:hf:MODEL", "--dialect"),
        ("reflexion:hf:MODEL", "--window"),
    ],
)
def test_options_that_an_agent_does_not_take_are_refused(
    agent: str, option: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {"--dtype": "bfloat16", "--window": "2"}.get(option, "think-v1")
    command_line = [
        "rollout",
        "--agent",
        agent.replace("MODEL", model),
        option,
        value,
        "--limit",
        "1",
        "--out",
        str(tmp_path / "o.jsonl"),
    ]
    assert main(command_line) == 2
    assert f"{option} is for" in capsys.readouterr().err


def test_rollouts_take_the_options_too(model: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    options = [part for part in ARGUMENTS if part not in ("--samples", "2")]
    assert (
        main(
            [
                "rollout",
                "--agent",
                f"hf:{model}",
                *options,
                "--group-size",
                "2",
                "--temperature",
                "0",
                "--out",
                str(log),
            ]
        )
        == 0
    )
    [first, *_] = read_groups(log)
    assert first.trajectories[0].tokens is not None
    assert len(first.trajectories[0].tokens.prompts) == len(first.trajectories[0].turns)
