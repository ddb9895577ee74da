"""The four environments over every kind of task source that needs no files, for rules that hold in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

import creditflow
from creditflow.envs import AgentEnv

SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "sokoban": ("sokoban", {}),
    "sokoban-generated": ("sokoban", {"generator": {"height": 7, "width": 7, "boxes": 2}}),
    "alfworld": ("alfworld", {"panel": "standard-v1:valid"}),
    "alfworld-generated": ("alfworld", {}),
    "webshop": ("webshop", {}),
    "webshop-ads": ("webshop", {"ads": 2, "ad_chance": 0.5, "obs_mode": "text_rich"}),
    "wikisearch": ("wikisearch", {}),
    "wikisearch-world": ("wikisearch", {"world": {"articles": 400, "questions": 40, "seed": 5}, "max_calls": 3}),
}
GENERATED = ("sokoban-generated", "alfworld-generated")


def made(source: str) -> AgentEnv[Any, Any, Any]:
    """A bare environment over a source of ``SOURCES``."""
    name, options = SOURCES[source]
    return bare(creditflow.make(name, **options))


def bare(env: gym.Env[Any, Any]) -> AgentEnv[Any, Any, Any]:
    """The environment inside all wrappers."""
    inside = env.unwrapped
    assert isinstance(inside, AgentEnv)
    return inside


def walk(env: AgentEnv[Any, Any, Any], seed: int, steps: int) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """(snapshot, action, what the step returned) along a random walk that ends with the episode."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    for _ in range(steps):
        snapshot = env.get_state()
        actions = info["admissible_actions"]
        action = env.action_from_text(actions[int(rng.integers(len(actions)))])
        outcome = env.step(action)
        yield snapshot, action, outcome
        info = outcome[4]
        if outcome[2] or outcome[3]:
            return
