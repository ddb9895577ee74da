"""E-GRPO: failed trajectories are rewarded by the fraction of the question's entities mentioned in their thoughts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from creditflow.envs.text.entity_matching import MatchRule
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.entities.reading import EntityScheme
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.graphs.entity_reading import EntityReader
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["EGRPO"]

_LIMITS: dict[str, frozenset[StopReason]] = {
    "any_limit": frozenset({"token_limit", "tool_limit", "env_limit", "env_error"}),
    "token_or_tool": frozenset({"token_limit", "tool_limit", "env_error"}),
}


@register
@dataclass(frozen=True, kw_only=True)
class EGRPO(EntityScheme):
    """A_i = (R_i − mean R) / std R with R_i = 1 if correct, α γ_i / max_j γ_j if wrong, 0 on an error.

    γ_i is the fraction of the question's m matchable entities whose full phrase occurs in a *thought* of trajectory i
    (eqs. 1 to 5). Observations, queries and answers do not count, and the maximum is over the group.

    Format errors score 0. Overlength trajectories, and those that ended by an environment error, score 0, count in mean
    and deviation, and stay out of the loss. Every turn gets the same number. With ``outcome`` "score" or "return", α's
    term is added to that outcome instead of to 0.

    In a group without a correct trajectory, the paper's normalisation cancels α, so that 0.3 · γ has the same magnitude
    as a correct answer. The paper also gives the best failed trajectory all of α, even for one entity of many, and
    rewards guessed names.

    Attributes:
        match_weight: α in [0, 1]. The paper uses 0.3, and 0 is GRPO.
        scope: where entities are matched: "thoughts" (paper), or the full "trajectory" with its calls, answers and
            observations (the paper's control).
        aliases: also match other written forms.
        entities: the set E_q. "construction" contains the entities that the question's construction selected and
            replaced, or those of the part of a graph that it was written for (appendix B.1), as the task's
            ``construction_entities`` lists them. A task without this list uses "graph". "graph" contains the nodes of
            the evidence graph, including the answer. Entities that the question itself names are in neither, as a construction
            that replaces them leaves none.
        overlength: stop reasons that count as overlength: "any_limit", or "token_or_tool" only, so that reaching the
            environment's turn limit counts as wrong.
    """

    name = "egrpo"
    source = "E-GRPO (arXiv 2510.24694) eqs. 1 to 6. No code was released"
    verification = "the paper (no code was released)"
    limitations = (
        "In a group without a success the normalisation cancels α, so the failure that mentions most entities counts "
        "as much as a success. Guessed names are rewarded. If a question file does not record which entities its "
        "construction replaced, the question gets those of the evidence graph. They include the answer, so a guess "
        "of it counts as an entity."
    )
    task_fields = ("entities",)
    texts = ("observation", "thought", "response")
    properties = frozenset(
        {"branches", "one_member_zero", "permutation", "scale", "shift", "ties_zero", "unnamed_entity"}
    )
    ranges = {"match_weight": "[0, 1]"}

    match_weight: float = 0.3
    rule: MatchRule = "exact_substring"
    scope: Literal["thoughts", "trajectory"] = "thoughts"
    aliases: bool = False
    entities: Literal["construction", "graph"] = "construction"
    overlength: Literal["any_limit", "token_or_tool"] = "any_limit"

    @property
    def reads_observations(self) -> bool:
        """Whether observations matter under these parameters."""
        return self.scope == "trajectory"

    def assign(self, group: Group) -> Credit:
        """Score one group."""
        arrays = group.arrays
        graph = self.read_graph(group.task, f"group {group.group_id!r}", self.undefined_on(group))
        reader = self.reader(self.entity_set(graph), aliases=self.aliases)
        matched = np.array([self._count(turns, reader) for turns in group.episodes], np.float64)
        gamma = matched / max(reader.countable, 1)
        best = gamma.max(initial=0.0)
        gamma_hat = gamma / best if best > 0.0 else np.zeros_like(gamma)
        overlength = np.array([member.stop_reason in _LIMITS[self.overlength] for member in group.trajectories])
        zero = overlength | self.has_format_error(group)
        base = self.well_formed_scores(group)
        rewards = np.where(zero, 0.0, np.where(arrays.success, base, base + self.match_weight * gamma_hat))
        outcome, turn_part = self.outcome_part(group, scores=rewards, std_kind=self.std_kind, std_eps=self.std_eps)
        return Credit.of(
            group,
            outcome=outcome,
            step={"outcome, changed by the turn's own penalty": turn_part},
            loss_mask=~overlength[arrays.trajectory],
            aggregation="group_token_mean",
            diagnostics={
                "gamma": gamma,
                "gamma_hat": gamma_hat,
                "reward": rewards,
                "overlength": overlength,
                "unmatchable": reader.unmatchable,
            },
        )

    def entity_set(self, graph: EntityGraph) -> EntityGraph:
        """Return E_q, the entities of a question that are counted."""
        chosen: Iterable[int] = range(len(graph))
        if self.entities == "construction" and graph.construction is not None:
            chosen = graph.construction
        said = set[int]()
        if graph.question:
            said.update(graph.matcher("normalized").found(graph.question))
        return graph.subset(number for number in chosen if number not in said)

    def _count(self, turns: tuple[Turn, ...], reader: EntityReader) -> int:
        """Count the entities that a trajectory mentions."""
        everywhere = self.scope == "trajectory"
        observed = reader.shown(turns) if self.reads_observations else [()] * len(turns)
        named = set[int]()
        for turn, seen in zip(turns, observed, strict=True):
            text = "\n".join((turn.thought, turn.response or turn.action)) if everywhere else reader.thought(turn)
            mentioned = reader.found(text)
            if everywhere:
                mentioned = (*mentioned, *seen)
            named.update(mentioned)
        return len(named)
