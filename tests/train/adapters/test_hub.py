"""Packages for hubs: each names an environment of ours and the panels that creditflow contains, and nothing of this machine."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path

import pytest
import yaml

from creditflow import __version__
from creditflow.train.adapters.hub import ENVIRONMENTS
from creditflow.train.adapters.text_episode import EpisodeConfig, TextEpisode
from creditflow.train.cli import main
from creditflow.train.settings.reading import read_dataclass


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_package_for_verifiers_is_one_module_that_pins_creditflow_and_its_panel(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "package"
    assert main(["new", "hub-package", name, "--for", "verifiers", "--out", str(folder)]) == 0
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == [f"creditflow[verifiers]=={__version__}"]
    assert project["license"] == {"text": "Apache-2.0"}
    source = (folder / f"creditflow_{name}.py").read_text(encoding="utf-8")
    ast.parse(source)
    assert "$" not in source
    assert f"'{ENVIRONMENTS[name]['panel']}:train'" in source


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_rows_of_the_package_for_nemo_gym_are_tasks_that_its_environment_plays(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "package"
    assert main(["new", "hub-package", name, "--for", "nemo-gym", "--out", str(folder)]) == 0
    settings = yaml.safe_load((folder / "configs" / f"creditflow_{name}.yaml").read_text(encoding="utf-8"))
    server = settings[f"creditflow_{name}"]["resources_servers"][f"creditflow_{name}"]
    agent = settings[f"creditflow_{name}_agent"]["responses_api_agents"]["gymnasium_agent"]
    assert agent["resources_server"] == {"type": "resources_servers", "name": f"creditflow_{name}"}
    rows = [json.loads(line) for line in (folder / "data" / "example.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 5
    play = read_dataclass(EpisodeConfig, server["play"], "play")  # as its server reads them
    action = {"wikisearch": "<search>the capital</search>"}.get(name, "<action>wait</action>")
    for row in rows:
        episode = TextEpisode(play, json.loads(row["task"]), group_id="a")
        while not episode.step(action).done:
            pass
        assert episode.trajectory.task_id == row["task_id"]
        assert len(episode.trajectory.turns) >= 2


def test_a_hub_is_named_for_a_hub_package_and_for_nothing_else(tmp_path: Path) -> None:
    for arguments in (["hub-package", "sokoban"], ["scheme", "mine", "--for", "verifiers"]):
        assert main(["new", *arguments, "--out", str(tmp_path / "package")]) == 2
