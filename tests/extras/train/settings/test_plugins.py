"""A scheme of a user in training: named by its code on the command line only, part of the run's identity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.plugins import SCHEME, forget

from creditflow.train.cli import main
from creditflow.train.settings.reading import write_yaml

pytestmark = pytest.mark.usefixtures("forgotten")


@pytest.fixture
def file(config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A short run with the built-in scheme, beside a scheme of the user."""
    config["update"]["iterations"] = 1
    config["sft"] |= {"episodes": 6, "steps": 1}
    config["rollout"] |= {"tasks": 1, "group_size": 2}
    (tmp_path / "mine.py").write_text(SCHEME, "utf-8")
    write_yaml(tmp_path / "config.yaml", config)
    write_yaml(tmp_path / "hostile.yaml", config | {"credit": {"scheme": "mine.py:Mine"}})
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "config.yaml")


WALK = '''"""A text environment of Gymnasium."""
import gymnasium as gym
from creditflow.envs import TextSpace

class Walk(gym.Env):
    """Walk two steps to the right."""
    observation_space, action_space = TextSpace(), TextSpace(("left", "right"))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return "at 0", {}

    def step(self, action):
        self.at += {"left": -1, "right": 1}.get(action, 0)
        return f"at {self.at}", float(self.at == 2), self.at == 2, False, {}
'''


def test_a_settings_file_alone_runs_no_code(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text("open('ran', 'w').close()\n" + SCHEME, "utf-8")
    assert main(["train", "hostile.yaml", "--dry-run"]) == 2
    assert "Use --load mine.py:Mine on the command line" in capsys.readouterr().err
    assert not Path("ran").exists()
    assert main(["train", "hostile.yaml", "--dry-run", "--load", "mine.py:Mine"]) == 0
    assert Path("ran").exists()


def test_a_run_is_resumed_only_with_the_code_that_it_was_started_with(
    file: str, config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", file, "--set", "credit.scheme=mine.py:Mine"]) == 0
    assert "scheme mine" in capsys.readouterr().out
    stored = json.loads((Path(config["out"]) / "run.json").read_text())
    assert stored["settings"]["credit"]["scheme"] == "mine"
    assert stored["versions"]["plugins"].keys() == {"scheme mine"}
    resume = ["train", "--resume", config["out"], "--set", "update.iterations=2"]
    forget()
    assert main(resume) == 2
    assert "unknown credit scheme 'mine'" in capsys.readouterr().err
    (tmp_path / "mine.py").write_text(SCHEME + "# another version\n", "utf-8")
    assert main([*resume, "--load", "mine.py:Mine"]) == 3
    assert 'versions.plugins.scheme mine: stored "blake2b:' in capsys.readouterr().err
    forget()
    (tmp_path / "mine.py").write_text(SCHEME, "utf-8")
    assert main([*resume, "--load", "mine.py:Mine"]) == 0
    assert "iteration 2/2" in capsys.readouterr().out


def test_a_language_model_trains_in_a_text_environment_of_others(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "walk.py").write_text(WALK, "utf-8")
    settings = ["env.options={success: terminated, max_episode_steps: 3}", "sft.episodes=0", "tasks.count=2"]
    for name in ("walk.py:Walk", "FrozenLake-v1"):  # a text, and a number that is shown as one
        words = [word for setting in [f"env.name={name}", *settings] for word in ("--set", setting)]
        assert main(["train", file, *words, "--force"]) == 0
        assert "iteration 1/1" in capsys.readouterr().out
