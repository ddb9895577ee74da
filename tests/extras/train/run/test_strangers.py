"""Environments that know nothing of this package are trained in, by the command: episodes end, and what is rewarded gets credit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.toy_text import CLIFF, TAXI

from creditflow.train.cli import main
from creditflow.train.settings.reading import write_yaml

OWN = Path(__file__).parents[3] / "helpers/strangers.py"
SETTINGS: dict[str, Any] = {
    "device": "cpu", "threads": 1, "tasks": {"count": 3},
    "model": {"scratch": {
        "architecture": "qwen2", "hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128, "vocabulary": 512,
        "pattern": "[a-z]+| ?.", "positions": 1024,
    }},
    "prompting": {"dialect": "bare", "history": "window", "window": 0}, "sft": {"episodes": 0, "steps": 0},
    "rollout": {"tasks": 2, "group_size": 4, "max_new_tokens": 2}, "credit": {"scheme": "gigpo"},
    "update": {"iterations": 1, "packing": "padded"},
}  # fmt: skip


def trained(tmp_path: Path, name: str, options: dict[str, Any], *words: str, **changed: Any) -> dict[str, Any]:
    """The metrics of one iteration."""
    config = SETTINGS | {"out": str(tmp_path / "run"), "env": {"name": name, "options": options}} | changed
    write_yaml(tmp_path / "config.yaml", config)
    assert main(["train", str(tmp_path / "config.yaml"), *words]) == 0
    rows = map(json.loads, (tmp_path / "run/metrics.jsonl").read_text().splitlines())
    return next(row for row in rows if "turns" in row)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("FrozenLake-v1", {"success": "positive_reward"}), (CLIFF, {"success": "terminated"}), (TAXI, {"success": "positive_reward"}),
        ("CartPole-v1", {"success": "none"}),
    ],
)  # fmt: skip
def test_numbers_are_shown_as_text_and_episodes_end_although_no_action_is_valid(name, options, tmp_path) -> None:
    metrics = trained(tmp_path, name, {**options, "max_episode_steps": 12})
    assert metrics["episodes"] == 8
    assert 8 <= metrics["turns"] <= 8 * 12
    assert (tmp_path / "run/model").is_dir()


@pytest.mark.filterwarnings("ignore:.*names no limit")
@pytest.mark.parametrize("name", ["Guess", "GuessOn"])
@pytest.mark.usefixtures("forgotten")
def test_guesses_in_words_get_credit_with_and_without_a_limit(name: str, tmp_path: Path) -> None:
    options = {"success": "positive_reward", "max_episode_steps": 20}
    metrics = trained(tmp_path, name, options, "--load", f"{OWN}:{name}")
    assert metrics["invalid_fraction"] < 1.0
    assert metrics["turns"] <= 8 * 20
    assert metrics["success"] == 0.0 or metrics["step_credit_fraction"] > 0.0


def test_a_context_below_every_prompt_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompting = SETTINGS["prompting"] | {"max_context": 12}
    write_yaml(
        tmp_path / "config.yaml",
        SETTINGS | {"out": str(tmp_path / "run"), "env": {"name": "FrozenLake-v1", "options": {"success": "terminated"}}, "prompting": prompting},
    )  # fmt: skip
    assert main(["train", str(tmp_path / "config.yaml")]) == 2
    assert "not one of 8 episodes had room for its first turn" in capsys.readouterr().err
