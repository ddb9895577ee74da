"""Plug-ins for tests: files, packages that look installed, and registries that forget them afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest
from helpers.worlds.gridworlds import register_grids

from creditflow.envs import plugins
from creditflow.train.rollout.plugins import registries

SCHEME = '''"""A scheme."""
from dataclasses import dataclass
from creditflow.wrappers.credit import Credit, Scheme

@dataclass(frozen=True, kw_only=True)
class Mine(Scheme):
    """A_i = w (R_i - mean R)."""
    name = "mine"
    properties = frozenset({"permutation", "one_member_zero"})
    weight: float = 1.0

    def assign(self, group):
        returns = group.arrays.returns
        return Credit.of(group, outcome=self.weight * (returns - returns.mean()))
'''
AGENT = '''"""An agent."""
from creditflow.agents import Decision

class Nth:
    """Takes the listed action of a number."""
    name = "nth"

    def __init__(self, argument="0"):
        self.number = int(argument)

    def act(self, views):
        texts = [view.info["admissible_actions"] for view in views]
        return [Decision(view.env.action_from_text(text[self.number % len(text)])) for view, text in zip(views, texts)]
'''
ENVIRONMENT = '''"""An environment of Gymnasium, not of creditflow."""
import gymnasium as gym

class Ladder(gym.Env):
    """Climb three rungs."""
    observation_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        self.at += int(action)
        return self.at, float(self.at == 3), self.at == 3, False, {}
'''


def registries_restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The fixture ``forgotten``: registries as they are, and as they were again after the test."""
    register_grids()  # otherwise a test that imports the benchmark first would forget them too
    for entries in registries().values():
        monkeypatch.setattr(entries, "_entries", entries.entries())
    monkeypatch.setattr(plugins, "_LOADED", dict(plugins._LOADED))
    ids, modules = set(gym.registry), set(sys.modules)
    yield
    for gym_id in set(gym.registry) - ids:  # not those that the package registers when a module is imported first
        if gym_id.startswith("plugins/"):
            del gym.registry[gym_id]
    for module in set(sys.modules) - modules:
        if module.startswith(("creditflow_plugin_", "stranger")):
            del sys.modules[module]


def forget() -> None:
    """What the start of another process does to the registries."""
    for plugin in plugins.loaded():
        del registries()[plugin.kind]._entries[plugin.name]
        gym.registry.pop(f"plugins/{plugin.name}-v0", None)
    plugins._LOADED.clear()


def write_package(site: Path, name: str, source: str, *entries: tuple[str, str, str]) -> None:
    """Write a module and the metadata of an installed package with entry points (group, name, value) into a folder of the path."""
    (site / f"{name}.py").write_text(source, "utf-8")
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{key} = {value}\n" for group, key, value in entries))
