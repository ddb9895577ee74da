"""GDCR: a turn is rewarded for the entities it retrieves and cites, by their distance to the answer in the entity graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.entities.reading import EntityScheme
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityProgress, EntityReader
from creditflow.wrappers.records.group import Group

__all__ = ["GDCR", "EntityReward", "TurnEntities"]


class TurnEntities(NamedTuple):
    """The rewards of one turn, with the entities cited and retrieved."""

    cite: float
    retrieve: float
    cited: tuple[int, ...]
    retrieved: tuple[int, ...]


@register
@dataclass(frozen=True, kw_only=True)
class GDCR(EntityScheme):
    """r_t = Σ_{v ∈ ΔC_t} c(v) + Σ_{v ∈ ΔO_t} c(v) with c(v) = k^(−d(v)), and A_t = A_o + λ A_g(t).

    d is the number of edges between an entity and the answer. In each turn the thought comes first. ΔC_t are the
    entities it mentions that an *earlier* observation contained and that no thought has cited. The observation comes
    second. ΔO_t are its entities that no earlier observation contained (eqs. 6 to 12).

    An entity that was guessed, or copied from the question, therefore gets no reward and can still be cited later. No
    entity is retrieved and cited in the same turn, and an entity is rewarded at most twice. Queries and answers are not
    thoughts.

    A_g(t) = clip((r_t − mean r) / std r, −1, 1) over the turns of the trajectory (eq. 13). A_o is the outcome in
    standard deviations of the group.

    ``gdcr`` adds the step part unscaled, whereas ``sapo`` scales it by |A_o|. The paper's appendices are not public, so
    λ, the matching rule, edge directions, unreachable entities (c = 0) and the kind of deviation are our choices.

    Attributes:
        step_weight: λ.
        step_clip: A_g is clipped to ± this value.
        decay: k > 1. The paper uses 2.
        directed: whether paths go from subject to object only.
        answer: if the task's answer is not an entity (yes, no, comparisons): "required" raises an error, "virtual" adds
            a node for it, linked from the values that are compared, "zero" gives the group no step credit.
    """

    name = "gdcr"
    source = "GDCR/SAPO (arXiv 2605.29697) eqs. 4 to 13. No code was released"
    verification = "the paper, whose appendices are not public (no code was released)"
    limitations = (
        "It needs the question's entity graph. Entities get credit regardless of the outcome, so a group without a "
        "success learns to mention them."
    )
    task_fields = ("entities", "edges", "answer_node")
    texts = ("observation", "thought", "response")
    properties = frozenset({"branches", "one_member_zero", "permutation", "scale", "shift", "unnamed_entity"})
    ranges = {"step_weight": "[0, inf)", "step_clip": "(0, inf)", "decay": "(1, inf)"}

    step_weight: float = 0.5
    step_clip: float = 1.0
    decay: float = 2.0
    directed: bool = False
    answer: Literal["required", "virtual", "zero"] = "required"

    def lacks(self, task: Mapping[str, Any]) -> str:
        """Describe what a task's payload lacks for this scheme, or return ""."""
        if reason := super().lacks(task):
            return reason
        if self.answer == "required" and not task["answer_node"]:
            return (
                "its answer is not an entity of its graph: set answer='virtual' or answer='zero', or use questions "
                "whose answer is one (WikiSearch: answers='skip')"
            )
        return ""

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        arrays, index = group.arrays, group.episode_index
        outcome, turn_part = self.outcome_part(
            group, scores=self.well_formed_scores(group), std_kind=self.std_kind, std_eps=self.std_eps
        )
        graph = self.graph_of(group.task, f"group {group.group_id!r}", self.undefined_on(group))
        reader = self.reader(graph)
        turns = self._turn_entities(group, reader)
        rewards = np.array([turn.cite + turn.retrieve for turn in turns], np.float64)
        compared = normalize(
            rewards,
            index.episode,
            arrays.size,
            std_eps=self.std_eps,
            std_kind=self.std_kind,
            quantity="entities cited and retrieved",
            rows=index.stored,
        )
        clipped = np.clip(compared, -self.step_clip, self.step_clip)[index.own]
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "entities of the turn, gated": self.step_weight * self.gate(outcome)[arrays.trajectory] * clipped,
            },
            rewards=rewards[index.own],
            aggregation="trajectory_mean",
            diagnostics={
                "step_advantage": clipped,
                "unmatchable": reader.unmatchable,
                **self._diagnostics(group, graph, turns),
            },
        )

    def graph_of(self, task: Mapping[str, Any], where: str, reason: str) -> EntityGraph:
        """Read the task's graph, with the answer by the option ``answer`` (see ``read_graph``)."""
        return self.read_graph(task, where, reason, virtual=self.answer == "virtual")

    def gate(self, outcome: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (G,): factor of a trajectory's step part."""
        return np.ones_like(outcome)

    def contributions(self, graph: EntityGraph) -> NDArray[np.float64]:
        """float64 (V,): c of each entity."""
        return graph.contributions(self.decay, directed=self.directed)

    def _turn_entities(self, group: Group, reader: EntityReader) -> list[TurnEntities]:
        """The rewards of all turns of the group's full episodes."""
        contributions = self.contributions(reader.graph)
        entities: list[TurnEntities] = []
        for turns in group.episodes:
            reward = EntityReward(contributions)
            for turn, observed in zip(turns, reader.shown(turns), strict=True):
                entities.append(reward.step(reader.found(reader.thought(turn)), observed))
        return entities

    def _diagnostics(self, group: Group, graph: EntityGraph, entities: Sequence[TurnEntities]) -> Mapping[str, Any]:
        """The paper's d_t and d_best (eqs. 16 and 17, inf without entities), and the parts of the reward."""
        distance = graph.distances(directed=self.directed)
        hops, index = distance.tolist(), group.episode_index
        nearest = np.full(len(entities), np.inf)
        for i, turn in enumerate(entities):
            nearest[i] = min([np.inf, *(hops[v] for v in turn.cited + turn.retrieved)])
        best = np.array(nearest)
        for a, b in pairwise(index.offsets.tolist()):
            np.minimum.accumulate(best[a:b], out=best[a:b])
        stored = [entities[i] for i in index.own.tolist()]
        return {
            "cite_reward": np.array([turn.cite for turn in stored], np.float64),
            "retrieve_reward": np.array([turn.retrieve for turn in stored], np.float64),
            "cited": [_names(graph, turn.cited) for turn in stored],
            "retrieved": [_names(graph, turn.retrieved) for turn in stored],
            "distance": nearest[index.own],
            "best_distance": best[index.own],
            "entity_distance": distance,
            "graph": graph,
        }


def _names(graph: EntityGraph, entities: Sequence[int]) -> tuple[str, ...]:
    return tuple(graph.names[v] for v in entities)


class EntityReward:
    """GDCR's reward for the turns of one episode, in order.

    Args:
        contributions: float64 (V,), c of each entity.

    Attributes:
        progress: entities seen and cited so far.
    """

    def __init__(self, contributions: NDArray[np.float64]) -> None:
        self._contributions = contributions.tolist()
        self.progress = EntityProgress()

    def step(self, named: Sequence[int], shown: Sequence[int]) -> TurnEntities:
        """Return the reward of the next turn.

        Args:
            named: entities mentioned in its thought.
            shown: entities in the observation that follows it.
        """
        cited, retrieved = self.progress.step(named, shown)
        cite = sum_in_order(self._contributions[v] for v in cited)
        retrieve = sum_in_order(self._contributions[v] for v in retrieved)
        return TurnEntities(cite, retrieve, cited, retrieved)
