"""Potentials of the *history*: what the turns of the running episode have earned so far.

- ``gdcr``: the sum of its rewards. Entities seen and cited only accumulate and r_t is the change by one turn, so the reward is a
  potential difference on histories. Nothing is learned: the graph is a part of the task.
- ``egrpo``: the fraction of the question's entities that the thoughts have named, γ of eq. 2, not divided by the best of the
  group, which is unknown while an episode runs.
- ``pica``: the success probability of a model that reads the history; the paper derives its step rewards from potential-based
  shaping by it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from creditflow.envs.errors import ConfigError, DataError, EpisodeError, unknown_name_error
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.entities.egrpo import EGRPO
from creditflow.wrappers.credit.entities.gdcr import GDCR, EntityReward
from creditflow.wrappers.credit.registry import make
from creditflow.wrappers.graphs.entity_reading import EntityReader, thought_text
from creditflow.wrappers.potentials import require_effect
from creditflow.wrappers.recorder import full_thought

__all__ = ["HISTORY", "HistoryPotential", "SuccessModel", "history_potential"]

# parameters of the schemes on which the potential depends
EFFECTIVE: Final[Mapping[str, tuple[str, ...]]] = {
    "gdcr": ("answer", "decay", "directed", "observations", "rule", "thoughts"),
    "egrpo": ("aliases", "entities", "observations", "rule", "thoughts"),
    "pica": (),
}
HISTORY: Final = tuple(EFFECTIVE)
SuccessModel = Callable[[Mapping[str, Any], "list[dict[str, str]]"], float]


@dataclass(frozen=True, slots=True)
class Move:
    """One turn as it is played.

    Attributes:
        action: action of the step.
        observation, info: results of the step.
        thought, response: what the agent wrote.
        last: whether the episode ended with this turn.
    """

    action: Any
    observation: Any
    info: Mapping[str, Any]
    thought: str
    response: str
    last: bool


class HistoryPotential(Protocol):
    """Φ of one running episode.

    Attributes:
        value: Φ of the history so far.
    """

    value: float

    def begin(self, task: Mapping[str, Any], task_id: str) -> None:
        """Start an episode; ``CreditError`` if the task lacks what the scheme reads."""
        ...

    def step(self, move: Move) -> None:
        """Add one turn; ``EpisodeError`` if no episode has started."""
        ...


def history_potential(name: str, *, model: SuccessModel | None = None, **parameters: Any) -> HistoryPotential:
    """Make the potential of a scheme.

    Args:
        name: a name in ``HISTORY``.
        model: for "pica": maps the task's payload and the turns so far, each with the keys "thought", "action" and
            "observation" (what the environment answered), to the probability of success.
        **parameters: parameters of the scheme on which its potential depends.

    Raises:
        ConfigError: an unknown name, a parameter without effect, or "pica" without a model.
    """
    if name not in EFFECTIVE:
        raise unknown_name_error("scheme with a potential of the history", name, HISTORY)
    if (name == "pica") != (model is not None):
        raise ConfigError(
            "pica needs model=, a function from (task, turns) to the probability of success"
            if model is None
            else f"model= is the success model of pica; {name} has none"
        )
    scheme = make(name, **parameters)
    require_effect(name, parameters, EFFECTIVE[name])
    if model is not None:
        return _SuccessPotential(model)
    if isinstance(scheme, GDCR):
        return _CitationPotential(scheme)
    return _MentionPotential(scheme)


class _CitationPotential:
    """The sum of GDCR's rewards."""

    def __init__(self, scheme: GDCR) -> None:
        self._scheme = scheme
        self._reader: EntityReader | None = None
        self.value = 0.0

    def begin(self, task: Mapping[str, Any], task_id: str) -> None:
        """Start an episode."""
        scheme = self._scheme
        graph = scheme.graph_of(task, f"task {task_id!r}", scheme.lacks(task))
        self._reader, self._reward = scheme.reader(graph), EntityReward(scheme.contributions(graph))
        self.value = 0.0

    def step(self, move: Move) -> None:
        """Add one turn, read in the same way as a recorded one."""
        reader = _started(self._reader)
        turn = self._reward.step(reader.found(_thought(move, self._scheme)), _observed(move, reader))
        self.value += turn.cite + turn.retrieve


class _MentionPotential:
    """The fraction of the question's matchable entities that E-GRPO finds in the thoughts so far."""

    def __init__(self, scheme: Scheme) -> None:
        if not isinstance(scheme, EGRPO):
            raise TypeError(f"expected egrpo, got {scheme.name}")
        self._scheme: EGRPO = scheme
        self._reader: EntityReader | None = None
        self.value = 0.0

    def begin(self, task: Mapping[str, Any], task_id: str) -> None:
        """Start an episode."""
        scheme = self._scheme
        graph = scheme.read_graph(task, f"task {task_id!r}", scheme.lacks(task))
        self._reader = scheme.reader(scheme.entity_set(graph), aliases=scheme.aliases)
        self._named, self.value = set[int](), 0.0
        self._silent = True

    def step(self, move: Move) -> None:
        """Add one turn."""
        reader, scheme = _started(self._reader), self._scheme
        thought = _thought(move, scheme)
        self._silent &= not thought.strip()
        self._named.update(reader.found(thought))
        self.value = len(self._named) / max(reader.countable, 1)
        if move.last and self._silent:
            warnings.warn(
                "egrpo rewards entities that thoughts name, and no turn of the episode had a thought, so it paid nothing: call "
                "record_response(thought=…, response=…) before each step, or step with the whole response",
                stacklevel=2,
            )


class _SuccessPotential:
    """A model's probability of success."""

    def __init__(self, model: SuccessModel) -> None:
        self._model = model
        self._task: Mapping[str, Any] | None = None
        self._turns: list[dict[str, str]] = []
        self.value = 0.0

    def begin(self, task: Mapping[str, Any], task_id: str) -> None:
        """Start an episode; Φ(s_0) is the model's value of the question alone."""
        del task_id
        self._task, self._turns = task, []
        self._evaluate()

    def step(self, move: Move) -> None:
        """Add one turn."""
        if self._task is None:
            raise EpisodeError("there is no episode yet: call reset() first")
        answer = move.observation if isinstance(move.observation, str) else ""
        self._turns.append(
            {"thought": full_thought(move.thought, move.info), "action": str(move.action), "observation": answer}
        )
        self._evaluate()

    def _evaluate(self) -> None:
        assert self._task is not None  # noqa: S101 - begin() has set it
        value = float(self._model(self._task, self._turns))
        if not 0.0 <= value <= 1.0 or math.isnan(value):
            raise DataError(f"the success model of pica must return a probability in [0, 1], got {value}")
        self.value = value


def _started(reader: EntityReader | None) -> EntityReader:
    if reader is None:
        raise EpisodeError("there is no episode yet: call reset() first")
    return reader


def _thought(move: Move, scheme: GDCR | EGRPO) -> str:
    return thought_text(full_thought(move.thought, move.info), move.response, str(move.action), scheme.thoughts)


def _observed(move: Move, reader: EntityReader) -> tuple[int, ...]:
    """Entities that the environment showed in a turn: read from its text, or recorded by it."""
    if reader.observations == "text" and not move.last:
        text = move.observation if isinstance(move.observation, str) else ""
        return tuple(reader.observed(text, move.info.get("queries", ())))
    return tuple(reader.recorded(move.info.get("entities", ())))
