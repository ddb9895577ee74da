"""What an agent is: it chooses actions for a batch of running episodes.

The interface is batched, because a language model needs it; every view has its own random generator, so that an
episode does not depend on the others in its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv, Oracle
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.records.pictures import EncodedPicture
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["Agent", "Decision", "Forking", "RecordedHistory", "Resuming", "TurnTokens", "View", "decisions_for"]


@dataclass(frozen=True, slots=True)
class View:
    """What an agent can see of one running episode.

    Attributes:
        observation: the latest observation.
        info: the environment's info; read only.
        turns: the turns so far.
        env: the unwrapped environment, for agents that use its oracle or snapshots.
        rng: the episode's own random generator.
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
class RecordedHistory:
    """Recorded turns of an episode that is continued.

    Attributes:
        views: the view before each turn, all of one environment.
        turns: the turns.
        completions: for each turn int32, the ids of the completion; None if they are unknown.
    """

    views: Sequence[View]
    turns: Sequence[Turn]
    completions: Sequence[NDArray[np.int32] | None]


@dataclass(frozen=True, slots=True, eq=False)
class TurnTokens:
    """The tokens of one turn, as the model read and generated them.

    Attributes:
        prompt: int32, the ids appended before the completion; with a windowed history, the whole prompt.
        completion: int32, the generated ids, the end-of-turn token included.
        logprobs: float32, the sampler's log-probability of each completion token.
        windowed: whether ``prompt`` is a whole prompt.
        in_loss: whether the completion may enter a loss.
        entropies: float32, entropy (nats) of the distributions that the first tokens were sampled from, if requested.
        pictures: the pictures in ``prompt``, in order.
    """

    prompt: NDArray[np.int32]
    completion: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    windowed: bool = False
    in_loss: bool = True
    entropies: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    pictures: tuple[EncodedPicture, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """An agent's choice for one episode.

    Attributes:
        action: the action, as the environment takes it.
        thought, response: a language model's reasoning and its full text.
        invalid_reason: why the response does not follow the dialect ("" if it does); the turn then counts as not parsed.
        tokens: tokens of the turn, for a language model.
        stop: end the episode instead of acting, because of a limit that the environment does not enforce.
    """

    action: Any
    thought: str = ""
    response: str = ""
    invalid_reason: str = ""
    tokens: TurnTokens | None = None
    stop: StopReason | None = None


class Agent(Protocol):
    """Chooses actions. Its parameters are its only state between calls."""

    name: str

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        ...


def decisions_for(agent: Agent, views: Sequence[View]) -> list[Decision]:
    """Return what an agent, which may be a plug-in, decides: one decision per view.

    Raises:
        ConfigError: it returned something else.
    """
    decisions: Any = agent.act(views)
    if not isinstance(decisions, list | tuple):
        got = type(decisions).__name__
    elif wrong_types := sorted(
        {type(decision).__name__ for decision in decisions if not isinstance(decision, Decision)}
    ):
        got = f"a list with {', '.join(wrong_types)}"
    elif len(decisions) != len(views):
        got = str(len(decisions))
    else:
        return list(decisions)
    raise ConfigError(f"agent {agent.name!r}: act must return {len(views)} Decision in a list, one per view, got {got}")


@runtime_checkable
class Forking(Protocol):
    """An agent that keeps a history of its episodes, which can be copied when an episode is forked."""

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        """Give ``child`` the history of ``parent`` up to its first ``turns`` turns."""
        ...


@runtime_checkable
class Resuming(Protocol):
    """An agent that keeps a history of its episodes, which can be rebuilt from a record."""

    def resume(self, history: RecordedHistory, envs: Sequence[AgentEnv[Any, Any, Any]]) -> None:
        """Give the environments in which an episode continues the history of its recorded turns."""
        ...
