"""What the entity schemes share: how a group's texts are read, and what a rollout without the right form is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.text.entity_matching import MatchRule
from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.credit.malformed import malformed_turns
from creditflow.wrappers.credit.normalize import StdKind
from creditflow.wrappers.credit.outcome import OutcomeScheme, outcome_scores
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityReader, Observations, Thoughts
from creditflow.wrappers.records.group import Group

__all__ = ["EntityScheme"]


@dataclass(frozen=True, kw_only=True)
class EntityScheme(OutcomeScheme):
    """Parameters of the reading.

    Attributes:
        outcome: a rollout that ended on a format error scores 0 in any case.
        rule: when a text names an entity: "normalised" compares token sequences (NFKC, case folded), "exact_substring"
            characters; see ``envs/text/entity_matching.py``.
        thoughts: "wide" reads all of the response outside its calls, answers and tool results, for models without
            thinking tags; "recorded" only the recorded thought.
        observations: what a turn showed: the "text" of the next observation, or the "entities" that the environment
            recorded (for logs without texts; the last turn's are always these, for no log holds that text).
    """

    outcome: Literal["return", "success", "score"] = "success"
    outcome_std_kind: StdKind = "population"
    rule: MatchRule = "normalised"
    thoughts: Thoughts = "wide"
    observations: Observations = "text"

    def undefined_on(self, group: Group) -> str:
        """Why the scheme cannot score a group; "" if it can."""
        if reason := malformed_turns(group, ("action", "observation", "thought", "response", "queries", "entities")):
            return reason
        shown = [turn.observation for turns in group.episodes for turn in turns[1:]]
        if self.observations == "text" and self.reads_observations and shown and not any(shown):
            return self.lacks(group.task) or (
                "its turns have no observations: record and read the texts, or set observations='entities'"
            )
        return self.lacks(group.task)

    def lacks(self, task: Mapping[str, Any]) -> str:
        """What a task's payload lacks for this scheme; "" if nothing."""
        missing = [name for name in self.task_fields if name not in task]
        return f"its task has no {', '.join(map(repr, missing))}, as WikiSearch's tasks have" if missing else ""

    @property
    def reads_observations(self) -> bool:
        """Whether what was shown matters under these parameters."""
        return True

    def read_graph(self, task: Mapping[str, Any], where: str, reason: str, *, virtual: bool = False) -> EntityGraph:
        """The entities of a task.

        Args:
            task: the payload.
            where: what is scored, for the error.
            reason: why the scheme is not defined there; "" if it is.
            virtual: an answer that is no node becomes one.

        Raises:
            CreditError: the scheme is not defined here, or the graph is malformed.
        """
        try:
            if not reason:
                return EntityGraph.from_task(task, virtual=virtual)
        except DataError as error:
            reason = str(error)
        raise CreditError(f"{self.name} is not defined on {where}: {reason}")

    def reader(self, graph: EntityGraph, *, aliases: bool = True) -> EntityReader:
        """Reads the group's turns."""
        return EntityReader(
            graph, rule=self.rule, aliases=aliases, thoughts=self.thoughts, observations=self.observations
        )

    def well_formed_scores(self, group: Group) -> NDArray[np.float64]:
        """float64 (G,): the outcome; 0 on a format error."""
        broken = np.array([member.stop_reason == "format" for member in group.trajectories])
        return np.where(broken, 0.0, outcome_scores(group, self.outcome))
