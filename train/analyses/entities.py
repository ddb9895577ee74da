"""Shared by the entity analyses: the rollouts of questions with entities, and how each rollout ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from creditflow.train.analyses.finding import NotDefined
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import ANSWERED
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["Episode", "episodes", "with_entities"]


class Episode(NamedTuple):
    """A complete rollout: its turns, whether it ended with an answer, and whether the answer was correct."""

    turns: tuple[Turn, ...]
    answered: bool
    correct: bool


def with_entities(groups: Sequence[Group], *, answer: bool) -> list[tuple[Group, EntityGraph]]:
    """The groups whose task has entities (and, with ``answer``, an answer node), with their entity graphs.

    Raises:
        NotDefined: there are no such groups.
    """
    chosen, without_entities = [], 0
    for group in groups:
        graph = EntityGraph.from_task(group.task)
        without_entities += not len(graph)
        if len(graph) and (graph.answer >= 0 or not answer):
            chosen.append((group, graph))
    if not chosen:
        requirement = "an entity graph with an answer node" if answer else "the question's entities"
        raise NotDefined(
            f"needs {requirement} in the task's payload ('entities', 'edges', 'answer_node'); {without_entities} of "
            f"{len(groups)} groups have no entities at all"
            + (
                ", the others no answer node: open the question file with answers=virtual"
                if answer and without_entities < len(groups)
                else ""
            )
        )
    return chosen


def episodes(group: Group) -> list[Episode]:
    """The group's rollouts; that of a branch begins with its prefix."""
    return [
        Episode(turns, member.stop_reason in ANSWERED, member.success)
        for member, turns in zip(group.trajectories, group.episodes, strict=True)
    ]
