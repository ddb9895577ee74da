"""A run that was killed and resumed leaves the same folder as an uninterrupted one; a run resumes only with its own settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.models.toy_config import toy_vision_config
from helpers.run_content import run_content

from creditflow.train.cli import main
from creditflow.train.run.folder import init_run_folder, require_same_run
from creditflow.train.run.identity import OtherRunError, read_run_file, write_run_file
from creditflow.train.settings.reading import load_mapping, to_plain_data, write_yaml
from creditflow.train.settings.schema import TrainConfig

SCRIPT = Path(__file__).with_name("killed_training.py")
POINTS = 7  # moments at which a run is killed, evenly spread over its changes of the file system


@pytest.fixture
def file(config: dict[str, Any], tmp_path: Path) -> Path:
    """A run with everything that a folder may hold: SFT, evaluations, a critic, a reference."""
    config["evaluation"] = {
        "panel": "small-v1:valid",
        "final_panel": "small-v1:test",
        "limit": 2,
        "samples": 1,
        "every": 1,
    }
    config["env"]["options"]["max_steps"] = 2
    config["credit"] = {"scheme": "mt_ppo"}
    config["critic"] = {"kind": "separate", "lr": 1e-3}
    config["sft"] |= {"episodes": 6, "steps": 2}
    config["rollout"] |= {"tasks": 1, "group_size": 2}
    config["update"]["iterations"] = 2
    config["update"]["loss"] = {"kl_weight": 0.1}
    config["checkpoint"] = {"every": 1, "keep": 2}
    config["out"] = "unset"
    path = tmp_path / "config.yaml"
    write_yaml(path, config)
    return path


def killed(out: Path, moments: list[int], file: Path, sent: int) -> list[dict[str, Any]]:
    first = ["train", str(file), "--set", "out={}"]
    environment = os.environ | {"KILLED_LOG": str(out.parent / "errors"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[4] / "src"), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(out), json.dumps(moments), json.dumps(first), json.dumps(["train", "--resume", "{}"]), str(int(sent))],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def require_equal_after_kills(file: Path, tmp_path: Path, points: int, sent: int = signal.SIGKILL) -> None:
    """Stop the run at so many changes of the file system, resume it, and compare its folder with that of an uninterrupted one."""
    [whole] = killed(tmp_path / "run", [0], file, sent)
    assert whole["codes"] == [0], (tmp_path / "errors").read_text()[-3000:]
    expected = run_content(Path(whole["folder"]))
    assert {"metrics.jsonl", "config.yaml", "run.json", "model/tokenizer_config.json"} <= expected.keys()
    moments = sorted({round(1 + k * (whole["changes"] - 1) / (points - 1)) for k in range(points)})
    for one in killed(tmp_path / "run", moments, file, sent):
        where = f"stopped at change {one['moment']} of {whole['changes']}"
        expected_code = 130 if sent == signal.SIGINT else -sent
        assert os.waitstatus_to_exitcode(one["codes"][0]) == expected_code, where
        assert one["codes"][1] == 0, f"{where}: {(tmp_path / 'errors').read_text()[-3000:]}"
        resumed = run_content(Path(one["folder"]))
        assert resumed.keys() == expected.keys(), where
        for name, value in expected.items():
            assert resumed[name] == value, f"{where}: {name}"
    assert not list((tmp_path / "run").parent.rglob("*.tmp"))
    assert not list((tmp_path / "run").parent.rglob("*.lock"))


def test_a_killed_and_resumed_run_leaves_the_folder_of_an_uninterrupted_one(file: Path, tmp_path: Path) -> None:
    require_equal_after_kills(file, tmp_path, POINTS)


def test_an_interrupted_run_says_so_in_one_word_and_resumes(file: Path, tmp_path: Path) -> None:
    require_equal_after_kills(file, tmp_path, 4, signal.SIGINT)
    errors = (tmp_path / "errors").read_text()
    assert errors.count("\ninterrupted\n") == 4
    assert "Traceback" not in errors


@pytest.mark.lora
def test_so_does_a_run_with_an_adapter_pictures_and_branches(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="needs the extra [lora]")
    config = toy_vision_config(tmp_path)
    config["update"]["iterations"] = 1
    write_yaml(tmp_path / "base.yaml", config)
    assert main(["train", str(tmp_path / "base.yaml")]) == 0
    config["model"] = {"path": str(tmp_path / "run" / "model"), "lora": {"rank": 2, "alpha": 4}}
    (tmp_path / "run").rename(tmp_path / "base")
    config["model"]["path"] = str(tmp_path / "base" / "model")
    config |= {"sft": config["sft"] | {"episodes": 0}, "out": "unset"}
    branching = {"max_trajectories": 6, "base": 1.0, "slope": 0.0}
    config["rollout"] |= {"branching": branching}
    config["update"] |= {"iterations": 3, "loss": {"entropy_weight": 0.5, "importance_cap": 2.0}}
    write_yaml(tmp_path / "config.yaml", config)
    require_equal_after_kills(tmp_path / "config.yaml", tmp_path, 4)


def leaves(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= leaves(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return found


def another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return [*value, "more"]
    return {"more": 1} if isinstance(value, dict) else f"{value}x"


class Saved:
    """A tokenizer that is kept as an empty folder."""

    def save_pretrained(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text("{}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was just started, with default settings."""
    monkeypatch.setattr("creditflow.train.run.folder.load_run_tokenizer", lambda folder: folder)
    init_run_folder(tmp_path / "run", TrainConfig(out=str(tmp_path / "run")), Saved())
    return tmp_path / "run"


def test_every_setting_but_the_run_folder_and_the_ranks_is_compared(folder: Path) -> None:
    settings = TrainConfig(out=str(folder.with_name("moved")))
    require_same_run(folder, settings)
    stored = read_run_file(folder)
    assert stored is not None
    every = leaves(to_plain_data(settings))
    assert len(every) > 60
    for name, value in every.items():
        # the same run may go on elsewhere and on other ranks, and only verl reads the settings of verl
        if name == "out" or name.startswith("verl."):
            continue
        changed = json.loads(json.dumps(stored))
        place = changed["settings"]
        *above, last = name.split(".")
        for part in above:
            place = place[part]
        place[last] = another(value)
        write_run_file(folder, changed)
        with pytest.raises(OtherRunError, match="stored") as caught:
            require_same_run(folder, settings)
        assert f"settings.{name}" in str(caught.value)


@pytest.mark.parametrize("name", ["creditflow", "log_format", "prompts", "checkpoint"])
def test_another_version_is_another_run(name: str, folder: Path) -> None:
    stored = json.loads(json.dumps(read_run_file(folder)))
    stored["versions"][name] = "older"
    write_run_file(folder, stored)
    with pytest.raises(OtherRunError, match=f'versions.{name}: stored "older"'):
        require_same_run(folder, TrainConfig(out=str(folder)))


def test_a_run_without_identity_is_compared_by_its_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "run.json").unlink()
    require_same_run(folder, TrainConfig(out=str(folder)))
    assert "contains no run.json, so only the settings are compared" in capsys.readouterr().out
    with pytest.raises(OtherRunError, match=r"settings\.seed: stored 0, requested 4"):
        require_same_run(folder, TrainConfig(out=str(folder), seed=4))


@pytest.mark.parametrize("kind", ["policy", "success_model"])
def test_a_folder_with_a_config_of_its_own_is_no_run(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The config is the user's input, although it has the name of the one that a run writes."""
    written = {"config.yaml": f"# by hand\nkind: {kind}\n", "metrics.jsonl": "my measurements"}
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    assert main(["train", "--resume", str(tmp_path)]) == 3
    assert "is not the folder of a run" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == written


def test_the_command_rejects_other_settings_and_touches_nothing(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    small = [
        "--set",
        f"out={out}",
        "--set",
        "update.iterations=0",
        "--set",
        "evaluation.limit=1",
        "--set",
        "sft.steps=1",
    ]
    assert main(["train", str(file), *small]) == 0
    before = run_content(out)
    assert main(["train", "--resume", str(out), "--set", "credit.scheme=grpo", "--set", "seed=5"]) == 3
    printed = capsys.readouterr().err
    assert 'settings.credit.scheme: stored "mt_ppo", requested "grpo"' in printed
    assert "settings.seed: stored 8, requested 5" in printed
    assert run_content(out) == before
    assert main(["train", str(file), *small]) == 2
    assert main(["train", str(out / "config.yaml"), "--force"]) == 2  # its config lies in what it would empty
    assert f"contains the input {out / 'config.yaml'}" in capsys.readouterr().err
    assert run_content(out) == before
    (out / "notes.txt").write_text("mine")
    assert main(["train", str(file), *small, "--force"]) == 2
    (out / "notes.txt").unlink()
    assert main(["train", str(file), *small, "--force"]) == 0
    assert run_content(out) == before


def test_a_changed_file_is_another_run(
    config: dict[str, Any], settings_of: Callable[..., TrainConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("creditflow.train.run.folder.load_run_tokenizer", lambda folder: folder)
    settings = settings_of(config)
    init_run_folder(tmp_path / "run", settings, Saved())
    levels = Path(config["env"]["options"]["levels"])
    levels.write_text(levels.read_text() + "\n#####\n#@$.#\n#####\n")
    with pytest.raises(OtherRunError, match=f"files.{levels}: stored"):
        require_same_run(tmp_path / "run", settings)


def test_a_run_may_be_resumed_with_more_iterations_under_a_constant_learning_rate(folder: Path) -> None:
    from dataclasses import replace

    settings = TrainConfig(out=str(folder))
    longer = replace(settings, update=replace(settings.update, iterations=7))
    require_same_run(folder, longer)
    assert load_mapping(folder / "config.yaml")["update"]["iterations"] == 7
    with pytest.raises(OtherRunError, match=r"iterations: stored 7, requested 0"):
        require_same_run(folder, settings)
    shaped = replace(longer.update, iterations=9, optimizer=replace(longer.update.optimizer, schedule="cosine"))
    init_run_folder(folder, replace(longer, update=replace(shaped, iterations=7)), Saved())
    with pytest.raises(OtherRunError, match=r"iterations: stored 7, requested 9"):
        require_same_run(folder, replace(longer, update=shaped))
