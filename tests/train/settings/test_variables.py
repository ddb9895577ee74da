"""Environment variables in the paths of settings are expanded, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.train.cli import main
from creditflow.train.settings.overrides import with_variables
from creditflow.train.settings.schema import load_settings

CONFIG = """
out: $RUNS/mine
model: {path: "${MODELS}/qwen", scratch: {pattern: "a$"}}
env: {name: alfworld, options: {data_path: $GAMES, panel: released-v2:train}}
evaluation: {env_options: {data_path: $GAMES/other}}
"""


def test_paths_of_a_configuration_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    for name, value in {"RUNS": "/r", "MODELS": "/m", "GAMES": "/g"}.items():
        monkeypatch.setenv(name, value)
    settings = load_settings(tmp_path / "c.yaml")
    assert (settings.out, settings.model.path) == ("/r/mine", "/m/qwen")
    assert settings.env.options == {"data_path": "/g", "panel": "released-v2:train"}
    assert settings.evaluation.env_options == {"data_path": "/g/other"}
    monkeypatch.delenv("GAMES")
    with pytest.raises(
        ConfigError, match=r"env\.options\.data_path: '\$GAMES' names the environment variable GAMES, which is not set"
    ):
        load_settings(tmp_path / "c.yaml")


@pytest.mark.parametrize("text", ["", "a$", "$", "5$ and $$", "$1", "${}", "${1}", "a b"])
def test_what_names_no_variable_stays(text: str) -> None:
    assert with_variables(text, "x") == text
    assert with_variables({"a": [text, 3, None]}, "x") == {"a": [text, 3, None]}


def test_an_argument_of_a_command_names_its_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "rollout",
        "--env",
        "alfworld",
        "--env-set",
        "data_path=$NO_SUCH_FOLDER",
        "--out",
        str(tmp_path / "x.jsonl"),
    ]
    assert main(words) == 2
    assert "environment variable NO_SUCH_FOLDER, which is not set" in capsys.readouterr().err
