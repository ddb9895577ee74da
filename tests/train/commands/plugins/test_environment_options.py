"""Options of an environment may have any name: none is taken by a parameter of ours, in any command."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import creditflow
from creditflow.envs.registration import load_environment, make_vec, maker
from creditflow.train.cli import main
from creditflow.train.rollout.workers.play import RolloutSpec
from creditflow.wrappers import credit
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.invalid_actions import InvalidActions
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.jsonl import read_groups

pytestmark = pytest.mark.usefixtures("forgotten")

RECIPE = Path(__file__).parents[3] / "packaging" / "recipes" / "corridor.py"
# parameters of whatever stands between a command and a constructor
OURS = (GroupEnv, InvalidActions, Recorder, creditflow.make, gym.make, maker)
# Gymnasium's make takes two; --panel and --env-set panel are one option
TAKEN = {"self", "kwargs", "panel", "max_episode_steps", "disable_env_checker"}
NAMES = sorted(
    ({name for function in OURS for name in inspect.signature(function).parameters} - TAKEN)
    | {field.name for field in fields(RolloutSpec)}
    | {"task", "tasks", "split"}
)
OWN = '''

class Own(CorridorEnv):
    """A corridor that checks its options."""

    env_name: ClassVar[str] = "own"

    def __init__(self, *, max_steps: int = 20, **options: Any) -> None:
        if options != dict.fromkeys({names!r}, 3):
            raise ValueError(f"got {{options}}")
        super().__init__(max_steps=max_steps)
'''
FOREIGN = '''"""An environment of Gymnasium that checks its options."""
import gymnasium as gym

class Foreign(gym.Env):
    """One step."""
    observation_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, **options):
        if options != dict.fromkeys({names!r}, 3):
            raise ValueError(f"got {{options}}")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {{}}

    def step(self, action):
        return 1, 1.0, True, False, {{}}
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environments of a user, in the working directory."""
    (tmp_path / "own.py").write_text(RECIPE.read_text("utf-8") + OWN.format(names=NAMES), "utf-8")
    theirs = [name for name in NAMES if name not in ("success", "state_key")]  # what success is, no environment says
    (tmp_path / "foreign.py").write_text(FOREIGN.format(names=theirs), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(*without: str) -> list[str]:
    return [text for name in NAMES if name not in without for text in ("--env-set", f"{name}=3")]


def test_the_list_of_names_has_those_that_collided() -> None:
    assert {"size", "oracle", "env", "name", "id", "policy", "success", "pictures"} <= set(NAMES)


@pytest.mark.parametrize("more", [[], ["--workers", "2"]])
@pytest.mark.parametrize("env", ["own.py:Own", "foreign.py:Foreign"])
def test_rollout_passes_every_option_on(env: str, more: list[str], folder: Path) -> None:
    given = options() if env == "own.py:Own" else options("success", "state_key")
    rules = [] if env == "own.py:Own" else ["--env-set", "success=positive_reward"]
    command = ["rollout", "--env", env, *given, *rules, "--limit", "2", "--group-size", "2", "--out", "log.jsonl"]
    assert main([*command, *more]) == 0
    assert len(read_groups("log.jsonl")) == 2


def test_annotate_and_play_pass_every_option_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ["own.py:Own", *options()]
    assert main(["rollout", "--env", *place, "--limit", "1", "--group-size", "2", "--out", "log.jsonl"]) == 0
    assert main(["annotate", "--with", "oracle", "--env", *place, "log.jsonl", "--out", "rated.jsonl"]) == 0
    answers = iter(["right", ":quit", "quit"])
    monkeypatch.setattr("builtins.input", lambda *_: next(answers))
    assert main(["play", *place]) in (0, 130)


def test_an_option_that_an_own_environment_lacks_is_named_with_the_nearest(folder: Path, capsys) -> None:
    text = RECIPE.read_text("utf-8").replace('"corridor"', '"plain"')
    Path("plain.py").write_text(text, "utf-8")
    assert main(["rollout", "--env", "plain.py:CorridorEnv", "--env-set", "max_step=3", "--out", "log.jsonl"]) == 2
    assert "did you mean 'max_steps'" in capsys.readouterr().err


def test_a_vector_of_environments_passes_every_option_on(folder: Path) -> None:
    options: dict[str, Any] = dict.fromkeys(NAMES, 3)
    make_vec(load_environment("own.py:Own"), 2, **options).close()


@pytest.mark.parametrize("name", ["name", "self", "parameters", "scheme"])
def test_a_scheme_says_that_it_lacks_a_parameter_of_any_name(name: str, folder: Path, capsys) -> None:
    command = ["rollout", "--panel", "small-v1:valid", "--limit", "1", "--group-size", "2", "--out", "log.jsonl"]
    assert main(command) == 0
    assert main(["credit", "--scheme", "grpo", "--set", f"{name}=3", "log.jsonl"]) == 2
    assert f"unknown parameter of grpo {name!r}" in capsys.readouterr().err
    with pytest.raises(creditflow.errors.ConfigError):
        parameters: dict[str, Any] = {name: 3}
        credit.make("grpo", **parameters)
