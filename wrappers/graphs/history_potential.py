"""A potential of the *history*: what GDCR has paid in the running episode, entity by entity.

What an episode has seen and cited only grows, and r_t is the difference that a turn makes, so GDCR is a potential
difference on histories. Nothing is learned: the task brings the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from creditflow.envs.errors import DataError, EpisodeError, short_repr, unknown_name_error
from creditflow.wrappers.credit.entities.gdcr import GDCR, EntityReward
from creditflow.wrappers.credit.registry import make
from creditflow.wrappers.graphs.entity_reading import EntityReader, thought_text
from creditflow.wrappers.recorder import full_thought

__all__ = ["HISTORY", "HistoryPotential"]

HISTORY: Final = ("gdcr",)


class HistoryPotential:
    """Φ of one running episode.

    Args:
        scheme: "gdcr".
        **parameters: of the scheme; its weights and deviations are idle, what pays is r_t itself.

    Attributes:
        value: Φ, the sum of r_t so far.

    Raises:
        ConfigError: another scheme, or a wrong parameter.
    """

    def __init__(self, scheme: str, **parameters: Any) -> None:
        made = make(scheme, **parameters)
        if not isinstance(made, GDCR) or scheme not in HISTORY:
            raise unknown_name_error("scheme with a potential of the history", scheme, HISTORY)
        self._scheme = made
        self._reader: EntityReader | None = None
        self.value = 0.0

    def begin(self, task: Mapping[str, Any], task_id: str) -> None:
        """Begin an episode.

        Args:
            task: the task's payload.
            task_id: for the error.

        Raises:
            CreditError: the task has no entity graph, or not the answer that the scheme requires.
        """
        scheme = self._scheme
        graph = scheme.graph_of(task, f"task {task_id!r}", scheme.lacks(task))
        self._reader, self._tally = scheme.reader(graph), EntityReward(scheme, scheme.contributions(graph))
        self.value = 0.0

    def step(
        self, action: Any, observation: Any, info: Mapping[str, Any], *, thought: str, response: str, last: bool
    ) -> None:
        """Take one turn, read as a recorded one is.

        Args:
            action: as the environment took it.
            observation, info: what the step returned.
            thought, response: what the agent noted.
            last: the episode ended with it.

        Raises:
            EpisodeError: no episode has begun.
        """
        reader = self._reading()
        text = thought_text(full_thought(thought, info), response, str(action), self._scheme.thoughts)
        if reader.observations == "text" and not last:
            shown = reader.observed(observation if isinstance(observation, str) else "", info.get("queries", ()))
        else:
            shown = reader.recorded(info.get("entities", ()))
        found = self._tally.step(reader.found(text), shown, text)
        self.value += found.cite + found.retrieve

    def get_state(self) -> dict[str, Any]:
        """A JSON-able snapshot."""
        names, progress = self._reading().graph.names, self._tally.progress
        seen, cited = ([names[number] for number in sorted(part)] for part in (progress.seen, progress.cited))
        return {"seen": seen, "cited": cited, "value": self.value}

    def set_state(self, state: Any) -> None:
        """Restore a snapshot into an episode of the same task.

        Raises:
            DataError: not a snapshot of this task's history.
        """
        number = self._reading().graph.number
        try:
            seen, cited = ({number[name] for name in state[key]} for key in ("seen", "cited"))
            value = float(state["value"])
        except (TypeError, KeyError, ValueError) as error:
            raise DataError(f"the snapshot has no history of this task's entities: {short_repr(state, 80)}") from error
        self._tally.progress.seen, self._tally.progress.cited, self.value = seen, cited, value

    def _reading(self) -> EntityReader:
        if self._reader is None:
            raise EpisodeError("there is no episode yet: call reset() first")
        return self._reader
