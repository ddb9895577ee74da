"""Options shared by the entity schemes: how entities are read from texts, and the score after a format error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.text.entity_matching import MatchRule
from creditflow.envs.wikisearch.actions import is_tagged, turn_fault
from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.credit.malformed import malformed_turns
from creditflow.wrappers.credit.normalize import StdKind
from creditflow.wrappers.credit.outcome import Outcome, OutcomeScheme, outcome_scores
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityReader, Observations, Thoughts
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["EntityScheme"]


@dataclass(frozen=True, kw_only=True)
class EntityScheme(OutcomeScheme):
    """Parameters of reading entities from texts.

    Attributes:
        outcome: outcome of a trajectory. A trajectory with a format error always scores 0.
        std_kind: standard deviation of a "population" (n) or of a "sample" (n − 1).
        std_eps: added to the standard deviations.
        format_errors: which trajectories have a format error. "ending" means those that ended by one. "any_turn" adds
            those with any turn that could not be parsed, has no thought, or is tagged and not in the grammar of a turn
            (``envs/wikisearch/actions.py``), as in E-GRPO's appendix A and SAPO.
        rule: when a text mentions an entity: "normalized" compares token sequences (NFKC, case folded),
            "exact_substring" compares characters (see ``envs/text/entity_matching.py``).
        thoughts: "tags" uses the text between thinking tags (E-GRPO's appendix B.2; GDCR's thoughts are those of the same
            format), in dialects without tags the recorded thought; "wide" uses the full response outside calls, answers and tool results, for models without
            thinking tags; "recorded" uses the recorded thought only.
        observations: source of the entities observed after a turn: the "text" of the next observation, or the "entities"
            recorded by the environment (for logs without texts, and always after the last turn, whose observation is
            not logged).
    """

    ranges = {"std_eps": "[0, inf)"}

    outcome: Outcome = "success"
    format_errors: Literal["ending", "any_turn"] = "ending"
    std_kind: StdKind = "population"
    std_eps: float = 0.0
    rule: MatchRule = "normalized"
    thoughts: Thoughts = "tags"
    observations: Observations = "text"

    @property
    def search_fields(self) -> tuple[str, ...]:
        """The entities of passages, and the queries that found them."""
        return ("entities", "queries")

    def undefined_on(self, group: Group) -> str:
        """Return why the scheme cannot score a group, or "" if it can."""
        if reason := malformed_turns(group, ("action", "observation", "thought", "response", "queries", "entities")):
            return reason
        texts = [turn.observation for turns in group.episodes for turn in turns[1:]]
        if self.observations == "text" and self.reads_observations and texts and not any(texts):
            return self.lacks(group.task) or (
                "its turns have no observations: record and read the texts, or set observations='entities'"
            )
        return self.lacks(group.task)

    def lacks(self, task: Mapping[str, Any]) -> str:
        """Describe what a task's payload lacks for this scheme, or return ""."""
        missing = [name for name in self.task_fields if name not in task]
        return f"the task lacks {', '.join(map(repr, missing))}, which WikiSearch tasks have" if missing else ""

    @property
    def reads_observations(self) -> bool:
        """Whether observations matter under these parameters."""
        return True

    def read_graph(self, task: Mapping[str, Any], where: str, reason: str, *, virtual: bool = False) -> EntityGraph:
        """Read the entity graph of a task.

        Args:
            task: the task's payload.
            where: name of the group or task, for the error message.
            reason: why the scheme is not applicable to it, or "" if it is.
            virtual: add a node for an answer that is not an entity.

        Raises:
            CreditError: the scheme is not applicable to this task, or the graph is malformed.
        """
        try:
            if not reason:
                return EntityGraph.from_task(task, virtual=virtual)
        except DataError as error:
            reason = str(error)
        raise CreditError(f"{self.name} is not applicable to {where}: {reason}")

    def reader(self, graph: EntityGraph, *, aliases: bool = True) -> EntityReader:
        """Return the reader of the group's turns."""
        return EntityReader(
            graph, rule=self.rule, aliases=aliases, thoughts=self.thoughts, observations=self.observations
        )

    def well_formed_scores(self, group: Group) -> NDArray[np.float64]:
        """float64 (G,): the outcomes, with 0 after a format error."""
        return np.where(self.has_format_error(group), 0.0, outcome_scores(group, self.outcome))

    def has_format_error(self, group: Group) -> NDArray[np.bool_]:
        """bool (G,): the trajectories with a format error."""
        malformed = np.array([member.stop_reason == "format" for member in group.trajectories])
        if self.format_errors == "any_turn":
            for i, turns in enumerate(group.episodes):
                malformed[i] |= not all(map(_follows_format, turns))
        return malformed


def _follows_format(turn: Turn) -> bool:
    """Whether a turn was parsed, has a thought and, where its response is tagged, follows the grammar."""
    if not turn.parsed:
        return False
    written = turn.response or turn.action
    return not turn_fault(written, turn.thought) if is_tagged(written) else bool(turn.thought.strip())
