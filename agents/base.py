"""What an agent is: something that chooses actions for a batch of running episodes.

Batching is the interface, because a language model needs it; every view brings its own random generator, so that an
episode does not depend on who shares its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from creditflow.envs.core import AgentEnv, Oracle
from creditflow.wrappers.records import Turn

__all__ = ["Agent", "Decision", "View"]


@dataclass(frozen=True, slots=True)
class View:
    """What an agent may look at in one running episode.

    Attributes:
        observation: the present observation.
        info: the environment's info; not to be changed.
        turns: the turns so far.
        env: the bare environment, for agents that use its oracle or snapshots.
        rng: the episode's own randomness.
    """

    observation: Any
    info: dict[str, Any]
    turns: tuple[Turn, ...]
    env: AgentEnv[Any, Any, Any]
    rng: np.random.Generator

    @property
    def oracle(self) -> Oracle:
        """The environment's oracle."""
        return self.env.oracle

    @property
    def snapshot(self) -> str:
        """Snapshot of the present state."""
        return self.env.get_state()


@dataclass(frozen=True, slots=True)
class Decision:
    """What an agent does.

    Attributes:
        action: as the environment takes it.
        thought, response: a language model's reasoning and its full text.
    """

    action: Any
    thought: str = ""
    response: str = ""


class Agent(Protocol):
    """Chooses actions. Stateless between calls but for its parameters."""

    name: str

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        ...
