"""What an agent is: something that chooses actions for a batch of running episodes.

Batching is the interface, because a language model needs it; every view brings its own random generator, so that an
episode does not depend on who shares its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv, Oracle
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["Agent", "Decision", "Forking", "TurnTokens", "View"]


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


@dataclass(frozen=True, slots=True, eq=False)
class TurnTokens:
    """The tokens of one turn, as they went into the model and came out of it.

    Attributes:
        prompt: int32, what was appended before the answer; with a windowed history, the whole prompt.
        answer: int32, what the model wrote, its end-of-turn token included.
        logprobs: float32, the sampler's log-probability of each answer token.
        windowed: whether ``prompt`` stands alone.
        learn: whether the answer may enter a loss.
        entropies: float32, entropy (nats) of the distributions that the first tokens were drawn from, if asked for.
    """

    prompt: NDArray[np.int32]
    answer: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    windowed: bool = False
    learn: bool = True
    entropies: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))


@dataclass(frozen=True, slots=True)
class Decision:
    """What an agent does.

    Attributes:
        action: as the environment takes it.
        thought, response: a language model's reasoning and its full text.
        invalid_reason: why the answer does not follow its form ("" if it does); the turn then counts as not parsed.
        tokens: of a language model.
        stop: end the episode instead of acting, for a limit that the environment does not know.
    """

    action: Any
    thought: str = ""
    response: str = ""
    invalid_reason: str = ""
    tokens: TurnTokens | None = None
    stop: StopReason | None = None


class Agent(Protocol):
    """Chooses actions. Stateless between calls but for its parameters."""

    name: str

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        ...


@runtime_checkable
class Forking(Protocol):
    """An agent that remembers its episodes, and can be told that one goes on in two environments."""

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        """``child`` has the history of ``parent`` up to its first ``turns`` turns."""
        ...
