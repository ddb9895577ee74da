"""``EntityGraph``: the entities of a question, their relations, and their distances to the answer.

It is part of the task payload of a ``Group`` and is for credit only: agents never see it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.text.entity_matching import EntityMatcher, MatchRule, phrase_tokens
from creditflow.envs.text.virtual_answer import virtual_answer

__all__ = ["EntityGraph"]

# too frequent to match: as written forms of an answer they would be found in every text
_UNSPECIFIC = frozenset({("yes",), ("no",)})


@dataclass(frozen=True, eq=False)
class EntityGraph:
    """V entities, E relations, one answer.

    Attributes:
        names: V distinct names.
        aliases: V tuples of other written forms.
        edges: int32 (E, 2), subject and object of each relation.
        answer: index of the answer; −1 if it is not a node.
        question: text of the question.
        construction: indices of the entities that the question's construction selected and replaced, or of the part of a
            graph that it was written for; None if the task does not say.
    """

    names: tuple[str, ...]
    aliases: tuple[tuple[str, ...], ...]
    edges: NDArray[np.int32]
    answer: int = -1
    question: str = ""
    construction: tuple[int, ...] | None = None

    @classmethod
    def from_task(cls, task: Mapping[str, Any], *, virtual: bool = False) -> EntityGraph:
        """Read the graph of a task's payload.

        >>> graph = EntityGraph.from_task(
        ...     {
        ...         "entities": ["Inception", {"name": "Christopher Nolan", "aliases": ["Nolan"]}, "London"],
        ...         "edges": [
        ...             ["Inception", "director", "Christopher Nolan"],
        ...             ["Christopher Nolan", "born in", "London"],
        ...         ],
        ...         "answer_node": "London",
        ...     }
        ... )
        >>> graph.distances().tolist()
        [2.0, 1.0, 0.0]

        Args:
            task: ``entities`` (names, or objects with ``name`` and ``aliases``); optional ``edges`` (subject, relation,
                object), ``answer_node``, ``answers``, ``text`` (the question) and ``construction_entities`` (names).
            virtual: add a node for an answer that is not an entity (see ``virtual_answer``).

        Raises:
            DataError: the payload is malformed.
        """
        rows = [_entity(row) for row in _listed(task, "entities")]
        names = [name for name, _ in rows]
        index = {name: i for i, name in enumerate(names)}
        if len(index) != len(names):
            raise DataError("entity graph: an entity's name occurs twice")
        pairs = [_edge(row, index) for row in _listed(task, "edges")]
        answer = task.get("answer_node") or ""
        if answer and (not isinstance(answer, str) or answer not in index):
            raise DataError(f"entity graph: answer_node {short_repr(answer)} is not among the {len(names)} entities")
        constructed = _listed(task, "construction_entities")
        if unlisted := [name for name in constructed if not isinstance(name, str) or name not in index]:
            raise DataError(f"entity graph: construction_entities has {short_repr(unlisted[0])}, not an entity")
        aliases = [forms for _, forms in rows]
        construction = tuple(index[name] for name in constructed) or None
        if virtual and not answer:
            answers = _listed(task, "answers")
            if not all(isinstance(form, str) for form in answers):
                raise DataError(f"entity graph: answers must be strings, got {short_repr(answers)}")
            answer, leaves = virtual_answer(index, ((names[s], names[o]) for s, o in pairs), answers)
            pairs += [(index[leaf], len(names)) for leaf in leaves]
            index[answer] = len(names)
            names.append(answer)
            aliases.append(tuple(answers[1:]))
        return cls(
            names=tuple(names),
            aliases=tuple(aliases),
            edges=np.array(pairs, np.int32).reshape(-1, 2),
            answer=index[answer] if answer else -1,
            question=str(task.get("text", "")),
            construction=construction,
        )

    def subset(self, numbers: Iterable[int]) -> EntityGraph:
        """Return these entities alone, without relations and answer."""
        chosen = list(numbers)
        return EntityGraph(
            names=tuple(self.names[number] for number in chosen),
            aliases=tuple(self.aliases[number] for number in chosen),
            edges=np.zeros((0, 2), np.int32),
            question=self.question,
        )

    def to_networkx(self) -> nx.MultiDiGraph[str]:
        """Convert to networkx: a node for each name, with its aliases, distance to the answer and whether it is the answer.

        >>> task = {"entities": ["Inception", "London"], "edges": [["Inception", "set in", "London"]], "answer_node": "London"}
        >>> graph = EntityGraph.from_task(task).to_networkx()
        >>> graph.nodes["Inception"]["distance"], list(graph.edges())
        (1.0, [('Inception', 'London')])
        """
        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
        for i, (name, aliases, distance) in enumerate(zip(self.names, self.aliases, self.distances(), strict=True)):
            graph.add_node(name, aliases=aliases, distance=float(distance), answer=i == self.answer)
        graph.add_edges_from((self.names[subject], self.names[obj]) for subject, obj in self.edges.tolist())
        return graph

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def number(self) -> dict[str, int]:
        """Index of each name."""
        return {name: i for i, name in enumerate(self.names)}

    def matcher(self, rule: MatchRule = "normalized", *, aliases: bool = True) -> EntityMatcher:
        """Return a matcher that finds the entities in texts; the forms "yes" and "no" are not matched.

        An entity without any other form is among the matcher's ``unmatchable``, like one without letters and digits.
        """
        forms = []
        for name, synonyms in zip(self.names, self.aliases if aliases else ((),) * len(self), strict=True):
            forms.append([form for form in (name, *synonyms) if phrase_tokens(form) not in _UNSPECIFIC])
        return EntityMatcher(forms, rule)

    def distances(self, *, directed: bool = False) -> NDArray[np.float64]:
        """float64 (V,): number of edges on a shortest path from each entity to the answer; inf if there is none.

        Args:
            directed: follow edges from subject to object only.
        """
        neighbours: list[list[int]] = [[] for _ in self.names]
        for subject, obj in self.edges.tolist():
            neighbours[obj].append(subject)
            if not directed:
                neighbours[subject].append(obj)
        distance = np.full(len(self), np.inf)
        queue = deque[int]()
        if self.answer >= 0:
            distance[self.answer] = 0.0
            queue.append(self.answer)
        while queue:
            at = queue.popleft()
            for neighbour in neighbours[at]:
                if np.isinf(distance[neighbour]):
                    distance[neighbour] = distance[at] + 1.0
                    queue.append(neighbour)
        return distance

    def contributions(
        self, decay: float = 2.0, *, directed: bool = False, unreachable: Literal["zero", "far+1"] = "zero"
    ) -> NDArray[np.float64]:
        """float64 (V,): c(v) = decay^(−d(v)) (GDCR eq. 5).

        Args:
            decay: k > 1.
            directed: as for ``distances``.
            unreachable: contribution of an entity without a path to the answer: 0 ("zero"), or that of one edge beyond
                the farthest entity with a path ("far+1").
        """
        distance = self.distances(directed=directed)
        finite = np.isfinite(distance)
        if unreachable == "far+1" and finite.any():
            distance = np.where(finite, distance, distance[finite].max() + 1.0)
        with np.errstate(under="ignore"):
            contributions: NDArray[np.float64] = decay**-distance
        return contributions


def _listed(task: Mapping[str, Any], key: str) -> list[Any]:
    value = task.get(key, [])
    if not isinstance(value, list | tuple):
        raise DataError(f"entity graph: {key} must be a list, got {short_repr(value)}")
    return list(value)


def _entity(row: Any) -> tuple[str, tuple[str, ...]]:
    name, aliases = (row.get("name"), row.get("aliases", ())) if isinstance(row, Mapping) else (row, ())
    if (
        not isinstance(name, str)
        or not isinstance(aliases, list | tuple)
        or not all(isinstance(a, str) for a in aliases)
    ):
        raise DataError(
            f"entity graph: an entity is a name, or an object with name and aliases, got {short_repr(row, 80)}"
        )
    return name, tuple(aliases)


def _edge(row: Any, index: Mapping[str, int]) -> tuple[int, int]:
    well_formed = (
        isinstance(row, list | tuple) and len(row) == 3 and isinstance(row[0], str) and isinstance(row[2], str)
    )
    if not well_formed or row[0] not in index or row[2] not in index:
        raise DataError(
            f"entity graph: an edge is (subject, relation, object) between entities, got {short_repr(row, 80)}"
        )
    return index[row[0]], index[row[2]]
