"""A potential of the *history*: the sum of GDCR's rewards in the running episode.

The entities seen and cited in an episode only accumulate, and r_t is the change by one turn, so GDCR's reward is a
potential difference on histories. Nothing is learned: the graph is part of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from creditflow.envs.errors import DataError, EpisodeError, short_repr, unknown_name_error
from creditflow.wrappers.credit.entities.gdcr import GDCR, EntityReward
from creditflow.wrappers.credit.registry import make
from creditflow.wrappers.graphs.entity_reading import EntityReader, thought_text
from creditflow.wrappers.graphs.potentials import require_effect
from creditflow.wrappers.recorder import full_thought

__all__ = ["EFFECTIVE", "HISTORY", "HistoryPotential"]

HISTORY: Final = ("gdcr",)
# parameters of the scheme on which r_t depends
EFFECTIVE: Final = (
    "answer", "decay", "directed", "exclude_query_entities", "max_cited", "observations", "rewarded_stages", "rule",
    "thoughts", "unreachable", "words_per_citation",
)  # fmt: skip


class HistoryPotential:
    """Φ of one running episode.

    Args:
        scheme: "gdcr".
        **parameters: parameters of the scheme on which r_t depends: those in ``EFFECTIVE``, not its weights and scales.

    Attributes:
        value: Φ, the sum of r_t so far.

    Raises:
        ConfigError: an unknown scheme, an invalid parameter, or one on which r_t does not depend.
    """

    def __init__(self, scheme: str, **parameters: Any) -> None:
        made = make(scheme, **parameters)
        if not isinstance(made, GDCR) or scheme not in HISTORY:
            raise unknown_name_error("scheme with a potential of the history", scheme, HISTORY)
        require_effect(scheme, parameters, EFFECTIVE)
        self._scheme = made
        self._reader: EntityReader | None = None
        self.value = 0.0

    def begin(self, task: Mapping[str, Any], task_id: str) -> None:
        """Start an episode.

        Args:
            task: payload of the task.
            task_id: id of the task, for error messages.

        Raises:
            CreditError: the task has no entity graph, or lacks the answer that the scheme requires.
        """
        scheme = self._scheme
        graph = scheme.graph_of(task, f"task {task_id!r}", scheme.lacks(task))
        self._reader, self._reward = scheme.reader(graph), EntityReward(scheme, scheme.contributions(graph))
        self.value = 0.0

    def step(
        self, action: Any, observation: Any, info: Mapping[str, Any], *, thought: str, response: str, last: bool
    ) -> None:
        """Add one turn, read in the same way as a recorded one.

        Args:
            action: action of the step.
            observation, info: results of the step.
            thought, response: thought and response of the agent.
            last: whether the episode ended with this turn.

        Raises:
            EpisodeError: no episode has started.
        """
        reader = self._started_reader()
        text = thought_text(full_thought(thought, info), response, str(action), self._scheme.thoughts)
        if reader.observations == "text" and not last:
            shown = reader.observed(observation if isinstance(observation, str) else "", info.get("queries", ()))
        else:
            shown = reader.recorded(info.get("entities", ()))
        turn = self._reward.step(reader.found(text), shown, text)
        self.value += turn.cite + turn.retrieve

    def get_state(self) -> dict[str, Any]:
        """Return a JSON-serialisable snapshot."""
        names, progress = self._started_reader().graph.names, self._reward.progress
        seen, cited = ([names[number] for number in sorted(part)] for part in (progress.seen, progress.cited))
        return {"seen": seen, "cited": cited, "value": self.value}

    def set_state(self, state: Any) -> None:
        """Restore a snapshot of an episode of the same task.

        Raises:
            DataError: the snapshot is not one of this task.
        """
        number = self._started_reader().graph.number
        try:
            seen, cited = ({number[name] for name in state[key]} for key in ("seen", "cited"))
            value = float(state["value"])
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise DataError(f"the snapshot has no history of this task's entities: {short_repr(state, 80)}") from error
        self._reward.progress.seen, self._reward.progress.cited, self.value = seen, cited, value

    def _started_reader(self) -> EntityReader:
        if self._reader is None:
            raise EpisodeError("there is no episode yet: call reset() first")
        return self._reader
