"""Settings are read, checked and refused without torch: a config can be checked on a machine that cannot train."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.shared_data import ROOT

from creditflow.train.cli import main

REFUSES_TORCH = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ImportError(f"{name} was imported")

sys.meta_path.insert(0, Refusing())
"""
CONFIGS = sorted((ROOT / "train" / "configs").glob("*.yaml"))


def python(program: str, *arguments: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", REFUSES_TORCH + program, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_every_shipped_config_is_read_without_torch() -> None:
    assert CONFIGS
    python(
        """
from creditflow.train.annotate.success.settings import SuccessTrainConfig
from creditflow.train.settings.reading import load_mapping, read_dataclass
from creditflow.train.settings.schema import load_settings

for path in sys.argv[1:]:
    if "kind" in load_mapping(path):
        read_dataclass(SuccessTrainConfig, load_mapping(path))
    else:
        load_settings(path)
""",
        *map(str, CONFIGS),
    )


def test_every_setting_has_a_default_and_a_wrong_one_is_named_without_torch() -> None:
    message = python(
        """
from creditflow.envs.errors import ConfigError
from creditflow.train.settings.reading import read_dataclass, to_plain_data
from creditflow.train.settings.schema import TrainConfig

settings = read_dataclass(TrainConfig, {"out": "x"})
assert read_dataclass(TrainConfig, to_plain_data(settings)) == settings
try:
    read_dataclass(TrainConfig, {"out": "x", "update": {"loss": {"clip_hi": 1}}})
except ConfigError as error:
    print(error)
"""
    )
    assert "did you mean 'clip_high'" in message


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed, and a dry run uses it")
@pytest.mark.parametrize("name", ["quickstart", "gigpo_sokoban", "gigpo_alfworld"])
def test_a_dry_run_checks_everything_but_the_model_without_torch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = str(ROOT / "train" / "configs" / f"{name}.yaml")
    assert main(["train", config, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "the model was not checked: torch is not installed" in shown.err
    assert "https://download.pytorch.org/whl/cpu" in shown.err
    assert "training tasks" in shown.err
    assert "credit:" in shown.out
    # the sizes of quickstart's model are those of a tokenizer that is yet to be trained
    assert ("GB at the peak" in shown.err and "GPU hours: " in shown.err) is (name != "quickstart")
    assert main(["train", config, "--dry-run", "--set", "credit.scheme=gigp"]) == 2
    assert main(["train", config, "--dry-run", "--set", "tasks.panel=standard-v9:train"]) == 2
    assert main(["train", config]) == 3, "without --dry-run torch is needed"
