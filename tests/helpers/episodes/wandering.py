"""Agents that move at random, asked in batches or one by one, and environments that fail at random. No torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from creditflow.agents.base import Decision, TurnTokens, View
from creditflow.envs.core import AgentEnv
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import Task
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["LEVELS", "Fragile", "WanderingAgent", "alive", "makers", "tasks"]

LEVELS = ("########\n#@ $  .#\n#      #\n########", "#######\n#@ $ .#\n#     #\n#######", "#####\n#@$.#\n#####")


class WanderingAgent:
    """Moves at random, with a random number of tokens; sometimes uncertain, unparsable, or out of context."""

    name = "wanderer"

    def __init__(self) -> None:
        self.forks: list[tuple[str, int]] = []
        self.batches: list[int] = []

    def act(self, views: Sequence[View]) -> list[Decision]:
        self.batches.append(len(views))
        return [self.decide(view) for view in views]

    def decide(self, view: View) -> Decision:
        draw = view.rng.integers(1000, size=4)
        if draw[0] < 40:
            return Decision("", stop="token_limit")
        count = 1 + int(draw[1]) % 4
        tokens = TurnTokens(
            np.full(3, len(view.turns), np.int32), np.arange(count, dtype=np.int32), -np.ones(count, np.float32),
            entropies=np.full(count, 0.5 + draw[2] / 500, np.float32),
        )  # fmt: skip
        reason = "no tags" if draw[3] < 100 else ""
        return Decision(("right", "down", "left", "up")[int(draw[3]) % 4], invalid_reason=reason, tokens=tokens)

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        assert parent.get_state() == child.get_state()
        self.forks.append((parent.get_state(), turns))


class Fragile(SokobanEnv):
    """Fails at moments that depend on its actions."""

    def _apply(self, action: int) -> Any:
        if action == 0 and self.elapsed_steps % 3 == 2:
            raise OSError(f"step {self.elapsed_steps} of {self.get_state()[:40]}")
        return super()._apply(action)


class FragileStart(Fragile):
    """Sometimes cannot start, as its own random stream decides."""

    def _start(self, task: Task) -> None:
        if self.np_random.random() < 0.2:
            raise OSError("no start")
        super()._start(task)


def tasks(count: int) -> list[Task]:
    """Up to three small levels."""
    return [SokobanEnv(level=level).tasks.sample(np.random.default_rng(0)) for level in LEVELS[:count]]


def makers(size: int) -> tuple[Callable[[], GroupEnv], Callable[[], GroupEnv]]:
    """Functions that make the environments of a group and of a branch."""

    def make(env: type[SokobanEnv], members: int) -> GroupEnv:
        return GroupEnv(lambda: env(level=LEVELS[0], max_steps=7), size=members)

    return lambda: make(Fragile, size), lambda: make(FragileStart, 1)


def alive() -> set[str]:
    """Names of the rollouts' threads."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("creditflow")}
